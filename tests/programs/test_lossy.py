"""Messages that are rounded, coarse, noisy or lost, and what a program makes of them."""

from itertools import pairwise

import numpy as np
import pytest

import peerclust as pc
from peerclust import graphs, partition
from peerclust.errors import DataError, ParameterError
from peerclust.programs.admm import ADMM
from peerclust.programs.consensus import Maximum
from peerclust.programs.dgc import DGC
from peerclust.programs.lossy import Lossy
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.users import Users

ROWS, CLASSES = pc.datasets.iris()
PARTS = [ROWS[i] for i in partition.homogeneous(CLASSES, 10, random_state=0)]
GIVEN = {"n_clusters": 3, "rho": 100, "random_state": 0, "rounds": 1500, "tol": 1e-6}


def run(program, rounds, runtime=Simulator, on_round=None):
    users = Users(np.concatenate(PARTS), np.arange(0, 151, 15))
    x = np.repeat(ROWS[[10, 70, 120]][None], 10, axis=0)
    return run_program(
        runtime(graphs.ring(10)), program, users, x, rounds=rounds, on_round=on_round
    )


@pytest.mark.parametrize("form", ["float32", "float16"])
def test_numbers_are_rounded_as_numpy_rounds_them(form):
    seen = []
    run(Lossy(DGC(rho=100.0, alpha=0.2), dtype=form), 5, on_round=lambda s, _: seen.append(s[0]))
    for state in seen:
        assert np.array_equal(state.sent, state.inner.x.astype(form).astype(np.float64))


def test_eight_bits_are_what_sender_and_receiver_can_both_compute():
    seen = []
    run(
        Lossy(DGC(rho=100.0, alpha=0.2), dtype="8-bit"), 60, on_round=lambda s, _: seen.append(s[0])
    )
    for before, state in pairwise(seen):
        unit = np.ldexp(1.0, state.exponents.astype(int))[:, None, None]
        assert np.array_equal(state.sent, before.sent + state.codes * unit)
        assert state.codes.dtype == np.int8
        # Dither moves a number by up to half a unit more than rounding does.
        assert (np.abs(state.sent - state.inner.x) <= unit * (1 + 1e-9)).all()
    # The error goes to zero with the motion.
    assert np.abs(seen[-1].sent - seen[-1].inner.x).max() < 1e-3
    assert (
        np.abs(seen[0].sent - seen[0].inner.x).max()
        > np.abs(seen[-1].sent - seen[-1].inner.x).max()
    )


def test_dither_makes_no_error_on_average():
    users = Users(np.zeros((1, 1)), np.array([0, 1]))
    value = np.array([[[0.3, -0.77, 126.0]]])
    sent = []
    for seed in range(4000):
        program = Lossy(DGC(rho=1.0, alpha=0.0), dtype="8-bit", seed=seed)
        first = program.start(users, np.zeros((1, 1, 3)))
        inner = program.program.start(users, value)
        sent.append(program._encode(users, first, inner).sent.ravel())
    assert len(np.unique(np.array(sent)[:, 0])) == 2
    assert np.abs(np.mean(sent, axis=0) - value.ravel()).max() < 0.05


@pytest.mark.parametrize("data", ["iris", "digits"])
def test_eight_bits_end_within_one_percent_for_a_sixth_of_the_bytes(data):
    if data == "iris":
        parts, K = PARTS, 3
    else:
        from sklearn.datasets import load_digits

        rows, classes = load_digits(return_X_y=True)
        parts = [rows[i] for i in partition.homogeneous(classes, 10, random_state=0)]
        K = 10
    given = GIVEN | {"n_clusters": K, "search": "none", "graph": "ring"}
    whole, coarse = (pc.cluster(parts, exchange=form, **given) for form in ("float64", "8-bit"))
    costs = coarse.certificate.pooled_cost, whole.certificate.pooled_cost
    assert costs[0] <= 1.01 * costs[1]
    assert coarse.certificate.bytes <= whole.certificate.bytes / 6


def test_bytes_are_those_of_the_form():
    n, links = 12, 20
    sent = {
        form: run(Lossy(DGC(rho=100.0, alpha=0.2), dtype=form), 3).traffic.bytes
        for form in ("float64", "float32", "float16", "8-bit")
    }
    # Two counts of eight bytes are a vote; with 8 bits two of two bytes, and an exponent.
    assert sent["float64"] == 3 * links * (8 * n + 16)
    assert sent["float32"] == 3 * links * (4 * n + 16)
    assert sent["float16"] == 3 * links * (2 * n + 16)
    assert sent["8-bit"] == links * (8 * n + 16) + 2 * links * (n + 5)


def test_admm_in_eight_bits_still_ends_at_the_joint_solution():
    end = pc.cluster(PARTS, **GIVEN | {"solver": "admm", "rho": "auto", "exchange": "8-bit"})
    assert end.status.converged
    assert end.certificate.pooled_residual < 1e-6


def test_users_whose_messages_are_all_lost_cluster_alone():
    program = Lossy(DGC(rho=5.0, alpha=0.05), drop=0.999999999)
    lonely = run(program, 400).x
    start, island = ROWS[[10, 70, 120]][None], Simulator(graphs.path(1))
    alone = [
        run_program(island, program.program, Users(part, np.array([0, 15])), start, rounds=400).x[0]
        for part in PARTS
    ]
    assert np.abs(lonely - np.stack(alone)).max() < 1e-9


@pytest.mark.parametrize("runtime", [Simulator, Loopback], ids=lambda r: r.__name__)
def test_drops_are_as_frequent_as_asked_and_the_same_on_every_runtime(runtime):
    program = Lossy(DGC(rho=100.0, alpha=0.2), drop=0.3, seed=4)
    assert np.array_equal(run(program, 20, runtime).x, run(program, 20).x)
    assert not np.array_equal(run(program, 20).x, run(Lossy(program.program, drop=0.3), 20).x)
    users = Users(np.concatenate(PARTS), np.arange(0, 151, 15))
    values = np.repeat(np.arange(1.0, 21.0)[:, None, None], 2, axis=2)
    from peerclust.programs.protocol import HeardValues

    offsets, sent = np.arange(0, 21, 2), np.zeros((10, 1, 2))
    lost = 0
    for at in range(200):
        heard = HeardValues(sent, np.full((10, 1, 1), 2.0), values=values, offsets=offsets)
        came = program._channel(users, heard, sent, at)
        lost += (came.values[:, 0, 0] == 0.0).sum()
        assert np.array_equal(came.total, came.values.reshape(10, 2, 1, 2).sum(axis=1))
    assert 0.27 < lost / (200 * 20) < 0.33


def test_noise_has_the_size_asked_for():
    users = Users(np.concatenate(PARTS), np.arange(0, 151, 15))
    from peerclust.programs.protocol import HeardValues

    program = Lossy(DGC(rho=100.0, alpha=0.2), noise=0.5)
    zeros = HeardValues(np.zeros((10, 3, 4)), np.full((10, 1, 1), 2.0),
                      values=np.zeros((20, 3, 4)), offsets=np.arange(0, 21, 2))  # fmt: skip
    noise = [program._channel(users, zeros, np.zeros((10, 3, 4)), at).values for at in range(50)]
    assert np.std(noise) == pytest.approx(0.5, rel=0.02)
    assert abs(np.mean(noise)) < 0.01


def test_noisy_gradients_are_noisy_and_end_nearby():
    exact = pc.cluster(PARTS, solver="dgc", **GIVEN)
    noisy = pc.cluster(PARTS, solver="dgc", exchange={"gradient_noise": 0.01}, **GIVEN)
    off = np.abs(noisy.centers - exact.centers).max()
    assert 0 < off < 0.1


def test_a_program_that_asks_for_maxima_only_cannot_be_wrapped():
    with pytest.raises(TypeError, match="that says NeighborSum or NeighborValues"):
        run(Lossy(Maximum()), 1)


def test_the_penalty_of_admm_adapts_alike_in_eight_bits():
    seen = []
    run(
        Lossy(ADMM(c=400.0, D=5), dtype="8-bit"),
        80,
        on_round=lambda s, _: seen.append(s[0].inner.penalty.c),
    )
    assert (seen[-1] < 400.0).any()
    assert all(np.array_equal(c, np.repeat(c[:1], 10, axis=0)) for c in seen)


@pytest.mark.parametrize(
    ("exchange", "sentence"),
    [
        ("9-bit", "`exchange` of cluster must be one of"),
        (8, "`exchange` of cluster must be a name or a dict. Got 8."),
        ({"noize": 1.0}, "Did you mean 'noise'?"),
        ({"drop": 1.0}, "`drop` of exchange must be below 1. Got 1.0."),
        ({"drop": -0.1}, "`drop` of exchange must be a number >= 0. Got -0.1."),
        ({"seed": -1}, "`seed` of exchange must be"),
        ({"noise": float("nan")}, "`noise` of exchange must be a number >= 0. Got nan."),
    ],
)
def test_a_bad_exchange_gets_one_sentence(exchange, sentence):
    with pytest.raises(ParameterError) as error:
        pc.cluster(PARTS, exchange=exchange, **GIVEN)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("form", "times"), [("float16", 1e6), ("float32", 1e39), ("8-bit", 1e35), ("8-bit", 1e-35)]
)
def test_numbers_that_do_not_fit_the_format_are_refused(form, times):
    with pytest.raises(DataError, match="must be a format for numbers"):
        pc.cluster([part * times for part in PARTS], exchange=form, **GIVEN)


def test_exact_needs_every_digit():
    with pytest.raises(ParameterError, match="'float64' with the solver 'exact'"):
        pc.cluster(PARTS, n_clusters=3, solver="exact", exchange="8-bit")
