"""Draws over the network: exactly proportional, the same for all, revealing no more than stated."""

import numpy as np
import pytest
from scipy.stats import chisquare, gumbel_r, kstest, logistic

from peerclust.graphs import ring, star
from peerclust.programs.draw import ROUNDING, Draw
from peerclust.programs.protocol import HeardMax
from peerclust.runtimes import Loopback, Simulator, run_program
from peerclust.users import Users

ROWS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [-4.0, 0.5], [9.0, 9.0]])
WEIGHTS = np.array([1.0, 0.5, 2.0, 1.0, 3.0, 0.2])
OFFSETS = np.array([0, 2, 2, 5, 6])  # the second user has no rows


def broadcast_centers(centers, m=4):
    return np.repeat(centers[None], m, axis=0)


NONE = broadcast_centers(np.empty((0, 2)))


def draw(program, rows=ROWS, weights=WEIGHTS, offsets=OFFSETS, x=None, runtime=Simulator):
    users = Users(rows, offsets, weights=weights)
    agreed = np.empty((0, rows.shape[1])) if x is None else x
    run = run_program(
        runtime(ring(users.m)), program, users, broadcast_centers(agreed, users.m), rounds=2
    )
    return run.states[0].drawn


def frequencies(drawn, rows=ROWS):
    return (drawn[:, None, :] == rows[None]).all(axis=2).sum(axis=0)


def test_first_rows_are_drawn_in_proportion_to_their_weights():
    counts = frequencies(draw(Draw(seed=1, step=0, n=20_000)))
    assert counts.sum() == 20_000
    assert chisquare(counts, 20_000 * WEIGHTS / WEIGHTS.sum()).pvalue > 1e-3


@pytest.mark.parametrize("cap", [np.inf, 5.0])
def test_later_rows_are_drawn_in_proportion_to_weight_times_capped_squared_distance(cap):
    x = np.array([[0.5, 0.0], [3.0, 3.0]])
    squared = ((ROWS[:, None] - x[None]) ** 2).sum(axis=2).min(axis=1)
    mass = WEIGHTS * np.minimum(squared, cap)
    counts = frequencies(draw(Draw(seed=2, step=1, n=20_000, cap=cap), x=x))
    assert counts[3] == 0  # it is a center already
    some = mass > 0
    assert chisquare(counts[some], 20_000 * mass[some] / mass.sum()).pvalue > 1e-3


def test_how_rows_are_ordered_or_repeated_does_not_change_a_draw():
    rng = np.random.default_rng(0)
    times = np.array([3, 1, 2, 1, 4, 0])
    program = Draw(seed=5, step=2, n=200)
    x = np.array([[0.5, 0.0]])
    one = np.array([0, 6])
    weighted = draw(program, weights=times.astype(float), offsets=one, x=x)
    repeated = rng.permutation(np.repeat(ROWS, times, axis=0))
    ends = np.array([0, len(repeated)])
    again = draw(program, rows=repeated, weights=1.0, offsets=ends, x=x)
    assert np.array_equal(weighted, again)


def test_every_user_hears_the_same_draw():
    users = Users(ROWS, OFFSETS, weights=WEIGHTS)
    run = run_program(Loopback(star(4)), Draw(seed=1, step=0, n=50), users, NONE, rounds=2)
    for state in run.states:
        assert np.array_equal(state.drawn, run.states[0].drawn)


def test_no_row_leaves_a_user_that_did_not_win():
    users = Users(ROWS, OFFSETS, weights=WEIGHTS)
    program = Draw(seed=1, step=0, n=1)
    state = program.start(users, NONE)
    assert program.say(state).v.shape == (4, 1)  # only keys in the first exchange
    state = program.hear(users, state, HeardMax(state.keys.max(axis=0)))
    said = program.say(state).v
    winner = int(state.keys[:, 0].argmax())
    assert np.isneginf(np.delete(said, winner, axis=0)).all()
    assert np.isfinite(said[winner]).all()


def test_with_mean_of_the_winner_says_the_mean_of_its_rows_around_the_drawn_one():
    rows = np.array([[0.0], [1.0], [10.0], [11.0], [100.0]])
    drawn = draw(
        Draw(seed=4, step=0, n=300, mean_of=2), rows=rows, weights=1.0, offsets=np.array([0, 4, 5])
    )
    # The second user has one row only, which a mean would reveal: it does not take part.
    assert set(drawn.ravel()) == {0.5, 10.5}


def test_a_mean_does_not_depend_on_order_or_repetition():
    rng = np.random.default_rng(0)
    rows, times = rng.normal(size=(12, 2)), rng.integers(1, 4, 12)
    program = Draw(seed=5, step=2, n=50, mean_of=3)
    weighted = draw(program, rows=rows, weights=times.astype(float), offsets=np.array([0, 12]))
    again = rng.permutation(np.repeat(rows, times, axis=0))
    repeated = draw(program, rows=again, weights=1.0, offsets=np.array([0, len(again)]))
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)


def test_a_key_of_minus_infinity_shows_that_no_row_is_left():
    users = Users(ROWS, OFFSETS, weights=WEIGHTS)
    run = run_program(
        Simulator(ring(4)), Draw(seed=1, step=0), users, broadcast_centers(ROWS), rounds=2
    )
    assert np.isneginf(run.states[0].best).all()
    assert np.isnan(run.states[0].drawn).all()


def test_draws_of_different_steps_and_seeds_differ():
    drawn = [draw(Draw(seed=s, step=t, n=20)) for s in (0, 1) for t in (0, 1)]
    for i in range(4):
        for j in range(i):
            assert not np.array_equal(drawn[i], drawn[j])


# Private seeds of one user, as many runs have them.
SEEDS = [number.to_bytes(32) for number in range(1, 2001)]
CENTER = np.array([[[0.5, 0.0]]])


def private_user(seed, weights=WEIGHTS):
    return Users(ROWS, np.array([0, 6]), weights=weights, private_seeds={0: seed})


def keys_and_mass(x=CENTER, cap=np.inf, weights=WEIGHTS):
    """Return the key of each private seed, and the mass that all of them conceal."""
    program = Draw(seed=1, step=1, cap=cap)
    keys = [program.start(private_user(seed, weights), x).keys[0, 0] for seed in SEEDS]
    squared = ((ROWS[:, None] - x[0]) ** 2).sum(axis=2).min(axis=1)
    return np.array(keys), float((weights * np.minimum(squared, cap)).sum())


def test_rows_are_drawn_in_proportion_to_their_weights_from_private_seeds():
    users = Users(
        ROWS, OFFSETS, weights=WEIGHTS, private_seeds={i: bytes([i]) * 32 for i in range(4)}
    )
    for runtime in (Simulator(ring(4)), Loopback(star(4))):
        run = run_program(runtime, Draw(seed=1, step=0, n=20_000), users, NONE, rounds=2)
        counts = frequencies(run.states[0].drawn)
        assert counts.sum() == 20_000
        assert chisquare(counts, 20_000 * WEIGHTS / WEIGHTS.sum()).pvalue > 1e-3


def test_a_key_of_a_private_seed_reveals_no_more_than_a_gumbel_variable_around_the_log_mass():
    keys, mass = keys_and_mass()
    assert kstest(keys - np.log(mass), gumbel_r.cdf).pvalue > 1e-3
    # So says docs/security.md of one key: M is between these with probability 0.95.
    inside = (0.0253 * np.exp(keys) <= mass) & (mass <= 3.69 * np.exp(keys))
    assert abs(inside.mean() - 0.95) < 0.015
    assert abs((keys - np.euler_gamma - np.log(mass)).std() - 1.28) < 0.08


@pytest.mark.parametrize(
    "other",
    [{"x": CENTER + 1e-7}, {"cap": 5.0}, {"weights": WEIGHTS + 1e-9}],
    ids=["a center moved a little", "a cap", "a row weighs a little more"],
)
def test_two_keys_of_one_private_seed_do_not_reveal_the_ratio_of_their_masses(other):
    (keys, mass), (others, another) = keys_and_mass(), keys_and_mass(**other)
    # Of independent Gumbel variables the difference is logistic; of equal ones it is 0.
    error = (keys - others) - np.log(mass / another)
    assert kstest(error, logistic.cdf).pvalue > 1e-3


def test_a_repeated_draw_of_the_same_mass_has_the_same_key():
    program = Draw(seed=1, step=1)
    first, second = (program.start(private_user(SEEDS[0]), CENTER).keys for _ in range(2))
    assert np.array_equal(first, second)


def may_send(key, mass):
    """Return whether a user with this mass sends this key for some random number."""
    # Gumbel variables are computed from multiples of 2^-53 between 0 and 1.
    middle = np.rint(2.0**53 * np.exp(-np.exp(np.log(mass) - key)))
    uniform = (middle + np.arange(-4000, 4001)) / 2.0**53
    uniform = uniform[(uniform > 0) & (uniform < 1)]
    keys = np.log(mass) - np.log(-np.log(uniform))
    return bool((ROUNDING * np.rint(keys / ROUNDING) == key).any())


def test_the_last_bits_of_a_key_exclude_no_mass():
    keys, mass = keys_and_mass()
    candidates = mass * np.random.default_rng(0).uniform(0.8, 1.25, 300)
    assert all(may_send(*each) for each in zip(keys, candidates, strict=False))
