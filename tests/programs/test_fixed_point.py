"""Numbers as integers: what is lost, what is not, and that no order of a sum matters."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from peerclust.errors import DivergedError
from peerclust.programs.fixed_point import MIN_BITS, FixedPoint

TWO_64 = 1 << 64
law = settings(derandomize=True, deadline=None, max_examples=200)


def total_of(words):
    """The sum as unlimited integers of Python compute it, then modulo 2^64."""
    return np.array([sum(map(int, column)) % TWO_64 for column in words.T], np.uint64)


def exact_sum(values):
    return float(sum(map(Fraction, values)))


def test_a_single_users_numbers_keep_all_their_bits():
    values = np.array([[0.1, -1e-300, 7.0, -0.0]])
    numbers = FixedPoint.for_bound(np.full(4, 8.0), 1)
    assert numbers.decode(numbers.encode(values).sum(axis=0)).tobytes() == values.tobytes()
    wrong = np.array([[np.nan, 0, 0, 0], [0, 0, np.inf, 0]])
    assert not numbers.fits(wrong).any()
    with pytest.raises(DivergedError):
        numbers.encode(np.array([[np.nan, 0, 0, 0]]))


@pytest.mark.parametrize("m", [2, 3, 10, 512, 513, 10**6, 1 << 22, (1 << 22) + 1, 1 << 40])
def test_a_word_leaves_just_room_for_a_sum_of_m_numbers(m):
    numbers = FixedPoint.for_bound(np.array([1.0]), m)
    # A word is at most 2^bits in magnitude, and a sum of m of them must stay below 2^63.
    assert m << numbers.bits <= 1 << 62
    assert m << (numbers.bits + 1) > 1 << 62
    assert numbers.words == (1 if numbers.bits >= MIN_BITS else 2)
    assert (numbers.words == 2) == (m > 1 << 22)


@pytest.mark.parametrize("m", [7, 1000, 1 << 22, (1 << 22) + 1, 1 << 30])
def test_m_numbers_at_their_bound_have_the_right_sum(m):
    """No m numbers are made: the sum of m equal integers is a product modulo 2^64."""
    for value in (1.0, -1.0, 0.75, -0.75):
        numbers = FixedPoint.for_bound(np.array([abs(value)]), m)
        (word,) = numbers.encode(np.array([[value]]))
        total = np.array([int(each) * m % TWO_64 for each in word], np.uint64)
        assert numbers.decode(total)[0] == m * value
        # At the power of two itself, which the bound allows.
        top = np.ldexp(np.sign(value), numbers.exponent)
        (word,) = numbers.encode(top[None])
        total = np.array([int(each) * m % TWO_64 for each in word], np.uint64)
        assert numbers.decode(total)[0] == m * top[0]


@law
@given(value=st.floats(-1e300, 1e300), room=st.floats(0, 40), m=st.integers(2, 10**9))
def test_a_number_comes_back_up_to_half_a_unit(value, room, m):
    bound = np.array([abs(value) * 2**room])
    if not np.isfinite(bound[0]):
        bound = np.array([abs(value)])
    numbers = FixedPoint.for_bound(bound, m)
    found = numbers.decode(numbers.encode(np.array([[value]]))[0])[0]
    unit = Fraction(2) ** (int(numbers.exponent[0]) - numbers.words * numbers.bits)
    # What is smaller than the smallest double rounds once more.
    error = abs(Fraction(float(found)) - Fraction(value))
    assert error <= unit / 2 + Fraction(5e-324) + abs(Fraction(value)) / 2**53
    if numbers.bits * numbers.words >= 53 + room + 1:
        assert found == value


@law
@given(
    values=st.lists(st.integers(-(1 << 53), 1 << 53), min_size=1, max_size=60),
    scale=st.integers(-300, 300),
)
def test_sums_of_numbers_of_53_bits_near_their_bound_are_exact_for_up_to_512_users(values, scale):
    x = np.ldexp(np.array(values, dtype=np.float64), scale)
    # All digits of numbers at the bound: no number has digits below 2^-53 of it.
    numbers = FixedPoint.for_bound(np.ldexp(np.array([float(1 << 53)]), scale - 1), 512)
    words = numbers.encode(x[:, None])
    assert numbers.decode(words.sum(axis=0))[0] == exact_sum(x)


@law
@given(values=st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=100))
def test_sums_of_whole_numbers_are_exact(values):
    x = np.array(values, dtype=np.float64)[:, None]
    numbers = FixedPoint.for_bound(np.array([1e6]), 10**5)
    assert numbers.decode(numbers.encode(x).sum(axis=0))[0] == sum(values)


@law
@given(
    values=st.lists(
        st.tuples(st.floats(-3, 3), st.floats(-1e-9, 1e-9), st.floats(-1e200, 1e200)),
        min_size=1,
        max_size=40,
    ),
    seed=st.integers(0, 1000),
    m=st.sampled_from([40, 1000, 1 << 22, 1 << 30]),
)
def test_every_order_and_grouping_of_a_sum_has_the_same_bits(values, seed, m):
    x, rng = np.array(values), np.random.default_rng(seed)
    numbers = FixedPoint.for_bound(np.abs(x).max(axis=0), m)
    words = numbers.encode(x)
    assert words.shape == (len(x), 3 * numbers.words)
    expected = total_of(words)
    shuffled = words[rng.permutation(len(words))]
    for pieces in (1, 2, len(words)):
        groups = np.array_split(shuffled, pieces)
        total = np.zeros_like(expected)
        for group in groups:
            total = total + group.sum(axis=0)
        assert total.tobytes() == expected.tobytes()
    # One number is not changed by those beside it.
    alone = FixedPoint.for_bound(np.abs(x[:, :1]).max(axis=0), m)
    assert alone.decode(alone.encode(x[:, :1]).sum(axis=0))[0] == numbers.decode(expected)[0]


@law
@given(
    values=st.lists(st.floats(-1, 1), min_size=1, max_size=100),
    m=st.sampled_from([100, 10**4, 1 << 22, (1 << 22) + 1, 1 << 40]),
)
def test_a_sum_is_off_by_at_most_half_a_unit_for_each_user(values, m):
    x = np.array(values)[:, None]
    numbers = FixedPoint.for_bound(np.array([1.0]), m)
    found = float(numbers.decode(numbers.encode(x).sum(axis=0))[0])
    unit = 2.0 ** (int(numbers.exponent[0]) - numbers.words * numbers.bits)
    assert abs(found - math.fsum(values)) <= len(values) * unit / 2 + 1e-15 * abs(found)
    if m == 100:
        assert abs(found - math.fsum(values)) <= 1e-15 * len(values)


def test_partial_sums_may_wrap_around():
    """Up to m users of the largest numbers, added in an order in which sums leave 2^63 behind."""
    m = 8
    numbers = FixedPoint.for_bound(np.array([1.0]), m)
    top = np.ldexp(1.0, numbers.exponent[0])
    words = numbers.encode(np.array([[top]] * 4 + [[-top]] * 3 + [[0.5]]))
    # Numbers that are no users' at all come and go: modulo 2^64 they leave no trace.
    shift = np.array([1 << 63, (1 << 63) - 1, 1, 12345], np.uint64)
    total = np.zeros(1, np.uint64)
    passed = []
    for word, more in zip(words, np.resize(shift, len(words)), strict=True):
        total = total + word + more
        passed.append(int(total[0]))
    for more in np.resize(shift, len(words)):
        total = total - more
    assert max(passed) > 1 << 63
    assert numbers.decode(total)[0] == top + 0.5
    negative = numbers.encode(np.array([[-top]] * 8)).sum(axis=0)
    assert numbers.decode(negative)[0] == -8 * top


def test_two_words_keep_what_one_would_lose():
    m = (1 << 22) + 1
    x = np.array([[1.0 + 2.0**-50], [-(2.0**-52)], [1.0 / 3.0]])
    numbers = FixedPoint.for_bound(np.array([1.5]), m)
    assert (numbers.bits, numbers.words) == (39, 2)
    words = numbers.encode(x)
    assert words.shape == (3, 2)
    for word, value in zip(words, x, strict=True):
        assert numbers.decode(word)[0] == value[0]
    expected = exact_sum(x.ravel())
    assert numbers.decode(words.sum(axis=0))[0] == pytest.approx(expected, rel=1e-16)
    single = FixedPoint(numbers.exponent, numbers.bits, 1)
    assert single.decode(single.encode(x[:1])[0])[0] == 1.0


@pytest.mark.parametrize("m", [2, 1 << 30])
def test_what_exceeds_its_bound_is_refused(m):
    numbers = FixedPoint.for_bound(np.array([1.0, 3.0]), m)
    inside = np.array([[1.0, 3.0], [-1.0, -3.0], [0.0, 0.0]])
    assert numbers.fits(inside).all()
    # A bound is rounded up to a power of two, and that is still accepted.
    assert np.ldexp(1.0, numbers.exponent).tolist() == [2.0, 4.0]
    for wrong in ([2.001, 0.0], [0.0, -4.001], [np.inf, 0.0], [np.nan, 0.0]):
        values = np.concatenate([inside, [wrong]])
        assert numbers.fits(values).tolist() == [True, True, True, False]
        with pytest.raises(DivergedError, match="larger than its bound"):
            numbers.encode(values)


@pytest.mark.parametrize("bound", [np.inf, np.nan, -np.inf])
def test_a_bound_that_is_not_finite_is_an_error(bound):
    with pytest.raises(DivergedError, match="sum over all users overflows"):
        FixedPoint.for_bound(np.array([1.0, bound]), 3)


@pytest.mark.parametrize("m", [3, 1 << 30])
def test_a_bound_of_zero_is_for_zeros(m):
    numbers = FixedPoint.for_bound(np.array([0.0, 1.0]), m)
    words = numbers.encode(np.array([[0.0, 1.0], [-0.0, 0.5]]))
    assert numbers.decode(words.sum(axis=0)).tolist() == [0.0, 1.5]
    with pytest.raises(DivergedError):
        FixedPoint.for_bound(np.array([0.0]), m).encode(np.array([[2.0]]))


@pytest.mark.parametrize("bound", [1e308, 1e-300, 5e-324])
@pytest.mark.parametrize("m", [2, 512, 1 << 30])
def test_bounds_at_the_ends_of_the_doubles_work(bound, m):
    numbers = FixedPoint.for_bound(np.array([bound]), m)
    with np.errstate(all="raise", under="ignore"):
        words = numbers.encode(np.array([[bound], [-bound], [0.5 * bound]]))
    found = numbers.decode(words[:2].sum(axis=0))[0]
    assert found == 0.0
    assert numbers.decode(words[0])[0] == bound
    for wrong in (np.inf, -np.inf, np.nan):
        assert not numbers.fits(np.array([[wrong]])).any()
