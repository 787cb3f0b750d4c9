"""The pooled step at every user, from exact sums, beside Lloyd and majorized steps, written out."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import peerclust as pc
from all_pairs import by_pairs
from instances import DISTANCES, LOSSES
from peerclust import graphs, partition
from peerclust.errors import DivergedError
from peerclust.programs.exact import Exact
from peerclust.programs.protocol import UNKNOWN, NetworkMax, NetworkSum
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.runtimes.loop import begin
from peerclust.runtimes.protocol import Traffic
from peerclust.users import Users

ROWS, CLASSES = pc.datasets.iris()
GRAPHS = [
    graphs.ring(10),
    graphs.star(10),
    graphs.erdos_renyi(10, 0.4, random_state=0),
    graphs.exponential(10),
]


def make_users(loss, distance=None, seed=0, scale=1.0):
    parts = partition.by_class(CLASSES, 10, per_user=2, random_state=seed)
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    rows = scale * ROWS[np.concatenate(parts)]
    return Users(rows, offsets, loss=loss, distance=distance)


def largest_ratio(loss):
    """The largest h'' / gamma: 1 + 2 t / (1 + exp(t)) for the logistic loss, 3 for the fair one."""
    if isinstance(loss, pc.Logistic):
        t = np.linspace(1.27, 1.29, 20_001)
        return (1 + 2 * t / (1 + np.exp(t))).max()
    return 3.0 if isinstance(loss, pc.Fair) else 1.0


def pooled_step(loss, x, A=None, rows=ROWS):
    """One majorized step on all rows."""
    A = np.eye(4) if A is None else A
    off = x - rows[:, None]
    r2 = np.einsum("nka,ab,nkb->nk", off, A, off)
    labels = r2.argmin(axis=1)
    new = x.copy()
    for k in range(len(x)):
        mine = labels == k
        gamma = np.asarray(loss.gamma(r2[mine, k]))
        H = largest_ratio(loss) * gamma.sum()
        if loss is LOSSES[-1]:  # a custom loss has only its smoothness
            H = loss.smoothness * mine.sum()
        if H > 0:
            # In the coordinates in which A is the identity, and so in all.
            new[k] = x[k] - (gamma[:, None] * off[mine, k]).sum(axis=0) / H
    return new


def run(users, x, rounds, graph=GRAPHS[0], runtime=Simulator, program=None, **options):
    """The run, and the states of all blocks after each round."""
    states = []
    ended = run_program(
        runtime(graph), Exact(graph.m) if program is None else program, users, x, rounds=rounds,
        on_round=lambda seen, _: states.append(list(seen)), **options,
    )  # fmt: skip
    return ended, states


def at_all(x, m=10):
    return np.repeat(x[None], m, axis=0)


@by_pairs(loss=LOSSES, distance=DISTANCES, graph=GRAPHS, runtime=[Simulator, Loopback])
def test_every_user_takes_the_pooled_step(loss, distance, graph, runtime):
    x, users = ROWS[[3, 60, 110]], make_users(loss, distance(4))
    _, states = run(users, at_all(x), 7, graph, runtime)
    A = np.asarray(getattr(distance(4), "A", np.eye(4)))
    # A maximum, and the average of the starts; then a step in each round.
    for round_ in states[2:]:
        x = pooled_step(loss, x, A)
        centers = np.concatenate([state.x for state in round_])
        assert np.abs(centers - x).max() < 1e-12
        assert (centers == centers[0]).all()


@by_pairs(loss=LOSSES, graph=GRAPHS, curvature=[np.inf, 30.0, 1e-3])
def test_runtimes_and_estimates_of_the_scale_agree(loss, graph, curvature):
    x = at_all(ROWS[[3, 60, 110]])
    ends = [
        run(make_users(loss), x, 30, graph, runtime, Exact(10, curvature))[0]
        for runtime in (Simulator, Loopback)
    ]
    assert ends[0].x.tobytes() == ends[1].x.tobytes()
    assert ends[0].traffic == ends[1].traffic
    # A maximum of 9 numbers by flooding, then sums of a count and 3 (1 + 4) numbers.
    flood = int(graph.diameter.value) * 2 * graph.edges
    assert ends[0].traffic == Traffic(flood + 29 * 18, flood * 72 + 29 * 18 * 8 * 16)
    if curvature == 1e-3:
        # An estimate that is much too small costs rounds, in which nothing moves.
        behind = run(make_users(loss), x, 29, graph)[1]
        found = [abs(ends[0].x - state.x).max() for (state,) in behind]
        assert min(found[-4:]) < 1e-12


def test_starts_that_differ_are_averaged_first():
    starts = np.random.default_rng(0).normal(size=(10, 3, 4)) + 3.0
    ended, _ = run(make_users(pc.KMeans()), starts, 2)
    assert np.abs(ended.x - starts.mean(axis=0)).max() < 1e-14


def test_a_cluster_without_rows_keeps_its_center():
    x = np.array([[5.0, 3.4, 1.5, 0.2], [6.2, 2.9, 4.9, 1.7], [90.0, 90.0, 90.0, 90.0]])
    ended, _ = run(make_users(pc.KMeans()), at_all(x), 60)
    assert (ended.x[:, 2] == 90.0).all()
    assert np.isfinite(ended.x).all()


def scales(states):
    """The bound on curvatures in each round, and how often it grew for numbers that did not fit."""
    largest = [round_[0].largest for round_ in states]
    still = [np.array_equal(a[0].x, b[0].x) for a, b in pairwise(states)]
    grew = [(b > a).any() for a, b in pairwise(largest)]
    return largest, sum(np.array(still) & np.array(grew))


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_the_scale_grows_where_the_fair_loss_has_almost_no_curvature(runtime):
    """At a scale of 1e-6 gamma is 4 r^2 of about 1e-12, a millionth of a millionth of beta W."""
    loss, scale = pc.Fair(), 1e-6
    users, x = make_users(loss, scale=scale), scale * ROWS[[3, 60, 110]]
    estimate = 10 * users.local_curvature(users.assign(at_all(x)), at_all(x)).mean(axis=0).max()
    assert estimate < 1e-8 * loss.smoothness * len(ROWS)
    for program, grows in ((Exact(10, estimate), 0), (Exact(10, 1e-6 * estimate), 1)):
        _, states = run(users, at_all(x), 12, runtime=runtime, program=program)
        _, growths = scales(states)
        assert growths >= grows
        expected = x
        for round_ in states[2 + growths :]:
            expected = pooled_step(loss, expected, rows=scale * ROWS)
            assert np.abs(round_[0].x - expected).max() < 1e-12 * scale


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_the_scale_grows_where_a_start_sits_on_a_row(runtime):
    """With a small delta, far rows have next to no curvature, and the row at a center has 1."""
    loss = pc.Huber(1e-9)
    users, x = make_users(loss), ROWS[[3, 60, 110]]
    far = x + 0.05
    estimate = 10 * users.local_curvature(users.assign(at_all(far)), at_all(far)).mean(axis=0).max()
    assert estimate < 1e-6
    _, states = run(users, at_all(x), 8, runtime=runtime, program=Exact(10, estimate))
    _, growths = scales(states)
    assert growths >= 1
    expected = x
    for round_ in states[2 + growths :]:
        # One step at a time: a step away from a row multiplies what was rounded before.
        expected = pooled_step(loss, expected)
        centers = np.concatenate([state.x for state in round_])
        assert np.abs(centers - expected).max() < 1e-10
        assert (centers == centers[0]).all()
        expected = centers[0]


def test_the_scale_follows_the_curvature_so_that_digits_remain():
    for scale in (1e-6, 1.0, 1e6):
        for loss in (pc.KMeans(), pc.Fair()):
            users, x = make_users(loss, scale=scale), scale * ROWS[[3, 60, 110]]
            _, states = run(users, at_all(x), 40)
            largest, _ = scales(states)
            H = users.curvature(states[-1][0].assignment, states[-1][0].x).sum(axis=0)
            assert (largest[-1] >= H).all(), (scale, loss)
            assert (largest[-1] <= 2.0**9 * H).all(), (scale, loss)


def test_clusters_of_very_different_weight_have_their_digits_each():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    labels = np.arange(300) % 3
    rows = centers[labels] + rng.normal(size=(300, 2))
    weights = np.array([1.0, 1e-8, 1e-16])[labels]
    users = Users(rows, np.arange(0, 301, 30), weights=weights)
    program = Exact(10, curvature=(100.0, 1e-6, 1e-14))
    ended = run_program(Simulator(GRAPHS[0]), program, users, at_all(centers), rounds=8)
    means = [rows[labels == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(ended.x[0], means, rtol=0, atol=1e-11)


def test_a_gradient_that_the_rows_do_not_permit_is_an_error():
    users, x = make_users(pc.KMeans()), at_all(ROWS[[3, 60, 110]])
    program = Exact(10)
    _, states = run(users, x, 3)
    wild = replace(states[-1][0], sums=1e12 * states[-1][0].sums)
    start = begin(program, [users], [x])
    resumed = replace(start, states=[wild])
    with pytest.raises(DivergedError, match="larger than the rows permit"):
        run_program(Simulator(GRAPHS[0]), program, users, x, rounds=30, resume_from=resumed)


@pytest.mark.parametrize("runtime", [Simulator, Loopback])
def test_a_run_stops_in_the_very_round_in_which_the_residual_falls_below_the_threshold(runtime):
    for graph in GRAPHS:
        users, x = make_users(pc.Huber()), at_all(ROWS[[3, 60, 110]])
        ended, states = run(users, x, 400, graph, runtime, threshold=1e-5)
        residuals = np.array([[s.residual[0] for s in round_] for round_ in states])
        assert ended.stopped
        assert ended.rounds == len(residuals) < 400
        assert (residuals[:-1] > 1e-5).all()
        assert (residuals[-1] <= 1e-5).all()
        # It is the length of the mean gradient where the last step began.
        before = states[-2][0].x[:1]
        at = np.repeat(before, 10, axis=0)
        gradient = users.gradient(users.assign(at), at).sum(axis=0) / 10
        largest = np.linalg.norm(gradient, axis=1).max()
        assert residuals[-1, 0] == pytest.approx(largest, rel=1e-6)


def test_the_residual_is_a_length_once_users_agree_on_the_stiffness():
    users, x = make_users(pc.KMeans()), at_all(ROWS[[3, 60, 110]])
    program, stiffness = (
        Exact(10),
        np.random.default_rng(0).uniform(1, 9, (1, 3)).repeat(10, axis=0),
    )
    start = begin(program, [users], [x])
    start = replace(start, states=[state.with_stiffness(stiffness) for state in start.states])
    ended, states = run(users, x, 6, resume_from=start)
    assert np.array_equal(ended.states[0].stiffness, stiffness)
    at = states[-2][0].x
    gradient = users.gradient(users.assign(at), at).sum(axis=0) / 10
    expected = (np.linalg.norm(gradient, axis=1) / stiffness[0]).max()
    assert ended.states[0].residual == pytest.approx(np.full(10, expected), rel=1e-9)


@pytest.mark.parametrize("first", [0, 100])
def test_a_run_that_is_resumed_averages_its_starts_before_it_may_stop(first):
    users, program = make_users(pc.KMeans()), Exact(10)
    x = at_all(ROWS[[3, 60, 110]])
    start = begin(program, [users], [x], first)
    ended, states = run(
        users, x, first + 4, GRAPHS[2], program=program, resume_from=start, threshold=1e-9
    )
    residuals = [round_[0].residual for round_ in states]
    assert len(residuals) == 4
    assert all((residual == UNKNOWN).all() for residual in residuals[:2])
    assert (residuals[2] < UNKNOWN).all()
    assert (residuals[2] > 1e-3).all()
    assert np.abs(ended.x - pooled_step(pc.KMeans(), pooled_step(pc.KMeans(), x[0]))).max() < 1e-12


def test_a_maximum_is_said_first_and_sums_from_then_on():
    users, program = make_users(pc.KMeans()), Exact(10)
    state = program.start(users, at_all(ROWS[[3, 60, 110]]))
    assert isinstance(program.say(state), NetworkMax)
    _, states = run(users, state.x, 5)
    for (later,) in states:
        said = program.say(later)
        assert isinstance(said, NetworkSum)
        # A count, and a curvature and a gradient for each center.
        assert said.v.shape == (10, 1 + 3 * (1 + 4))


def test_one_user_alone_takes_a_step_per_round():
    x = ROWS[[3, 60, 110]]
    alone = Users(ROWS, np.array([0, 150]))
    ended, _ = run(alone, x[None], 5, graphs.path(1))
    for _ in range(5):
        x = pooled_step(pc.KMeans(), x)
    assert np.abs(ended.x[0] - x).max() < 1e-12


def test_users_without_rows_take_part():
    rows = ROWS[::3]
    users = Users(rows, np.array([0, 0, 20, 20, 50, 50]))
    x = ROWS[[3, 60, 110]]
    ended, _ = run(users, at_all(x, 5), 5, graphs.ring(5))
    for _ in range(3):
        x = pooled_step(pc.KMeans(), x, rows=rows)
    assert np.abs(ended.x - x).max() < 1e-12


def test_one_user_alone_ends_at_a_fixed_point():
    end = pc.cluster([ROWS], n_clusters=3, solver="exact", random_state=0, tol=1e-9)
    assert end.status.converged
    assert np.abs(pooled_step(pc.KMeans(), end.consensus) - end.consensus).max() < 1e-9


@pytest.mark.parametrize(
    ("loss", "most"),
    [(pc.KMeans(), 30), (pc.Huber(), 60), (pc.Logistic(), 120), (pc.Fair(), 200)],
    ids=repr,
)
def test_it_reaches_the_pooled_fixed_point_in_few_rounds(loss, most):
    for seed in range(3):
        parts = [ROWS[i] for i in partition.homogeneous(CLASSES, 10, random_state=seed)]
        end = pc.cluster(
            parts, n_clusters=3, loss=loss, solver="exact", tol=1e-9, random_state=seed
        )
        assert end.status.converged
        assert end.certificate.rounds <= most
        step = pooled_step(loss, end.consensus)
        assert np.abs(step - end.consensus).max() < 1e-8
        assert end.certificate.pooled_residual <= 1e-9
        assert end.certificate.disagreement == 0.0
