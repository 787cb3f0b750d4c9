"""Losses beside the paper's formulas, in arbitrary precision."""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize_scalar

from all_pairs import by_pairs
from instances import DISTANCES, LOSSES, PseudoHuber
from peerclust.losses import Fair, Huber, KMeans, Logistic
from reference_impl import slope

# Every loss as the paper writes it (Examples 1-5), of r^2 and in arbitrary precision.
# Only log(1 + exp(s)) is written as s + log(1 + exp(-s)), which is the same number.
PAPER = {
    KMeans: lambda loss, s: s / 2,
    Huber: lambda loss, s: (
        s / 2 if s.sqrt() <= loss.delta else loss.delta * s.sqrt() - loss.delta**2 / 2
    ),
    Logistic: lambda loss, s: s + (1 + (-s).exp()).ln(),
    Fair: lambda loss, s: 2 * loss.eta**2 * (s / loss.eta - (1 + s / loss.eta).ln()),
    PseudoHuber: lambda loss, s: loss.delta**2 * ((1 + s / loss.delta**2).sqrt() - 1),
}


# Where the formula of a loss changes, in r.
KINKS = {Huber: lambda loss: loss.delta}


# beta, by hand: h'' is 1 (K-means, Huber up to delta), 2 s + 4 t s (1 - s) (logistic), or
# 4 eta t (3 + t) / (1 + t)^2 with t = r^2 / eta, whose maximum is at t = 3 (fair).
BETAS = [
    (KMeans(), 1.0),
    (Huber(0.05), 1.0),
    (Huber(5.0), 1.0),
    (Logistic(), 2.6016389300),
    (Fair(0.3), 1.35),
    (Fair(1.0), 4.5),
    (Fair(7.0), 31.5),
]


# 0, the smallest and the largest, and everything between
SQUARES = np.concatenate(([0.0], np.geomspace(1e-300, 1e300, 201), [4e-324, 1e-30, 1.0]))


SQUARES.sort()


losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def exact(loss):
    """The loss in Decimals, as the paper writes it."""
    numbers = {name: Decimal(value) for name, value in vars(loss).items()}
    of = type("Exact", (), numbers)
    return lambda s: PAPER[type(loss)](of, s)


def digits_for(s):
    """Return a precision at which 1 + s still resolves s^2 to 60 digits."""
    return 60 + 2 * max(0, -Decimal(s).adjusted())


def exact_value(loss, s):
    with decimal.localcontext(prec=digits_for(s)):
        return float(exact(loss)(Decimal(s)))


def exact_gamma(loss, s):
    """h'(r) / r = 2 dh/ds, as a difference so narrow that 40 digits are right."""
    with decimal.localcontext(prec=60 + digits_for(s)):
        s = Decimal(s)
        step = s.scaleb(-25)
        h = exact(loss)
        return float((h(s + step) - h(s - step)) / step)


def curvature(loss, r):
    """h''(r), as a difference so narrow that 30 digits are right."""
    with decimal.localcontext(prec=120):
        r = Decimal(float(r))
        step = r.scaleb(-20)
        h = exact(loss)
        return float((h((r + step) ** 2) - 2 * h(r * r) + h((r - step) ** 2)) / step**2)


def radii(loss):
    """Distances near zero, far away, and around the kink if there is one."""
    yield from (1e-3, 1e-2, 0.1, 0.7, 1.3, 4.0, 30.0)
    if type(loss) in KINKS:
        kink = KINKS[type(loss)](loss)
        yield from (0.9 * kink, 0.99 * kink, 1.01 * kink, 1.1 * kink)


def point_at(r, y, distance, rng):
    """A point at distance r of y, in a random direction."""
    direction = rng.normal(size=y.shape)
    return y + r * direction / np.linalg.norm(distance.forward(direction))


@by_pairs(loss=LOSSES, distance=DISTANCES, d=[1, 2, 3, 8])
def test_gradient_matches_finite_differences_of_the_value(loss, distance, d):
    rng = np.random.default_rng(d)
    measure = distance(d)
    A = getattr(measure, "A", np.eye(d))
    y = rng.normal(size=d)

    def f(x):
        return float(loss.value((x - y) @ A @ (x - y)))

    for r in radii(loss):
        x = point_at(r, y, measure, rng)
        z = measure.forward(x) - measure.forward(y)
        gradient = measure.back(loss.gamma(z @ z) * z)
        # short enough to stay on one side of the kink
        numeric = slope(f, x, step=1e-3 * r)
        rounding = np.finfo(float).eps * f(x) / (1e-3 * r)
        np.testing.assert_allclose(
            gradient, numeric, rtol=0, atol=2e-9 * np.linalg.norm(gradient) + 2 * rounding
        )


@losses
@pytest.mark.parametrize("d", [1, 3])
def test_gradient_is_zero_where_center_and_row_meet(loss, d):
    y = np.linspace(1.0, 2.0, d)
    gradient = loss.gamma(np.zeros(1)) * (y - y)
    np.testing.assert_array_equal(gradient, np.zeros(d))
    np.testing.assert_allclose(
        slope(lambda x: float(loss.value((x - y) @ (x - y))), y, step=1e-3), 0.0, atol=1e-12
    )


@pytest.mark.parametrize("delta", [0.5, 1.0, 5.0])
def test_huber_and_its_gradient_are_continuous_at_the_kink(delta):
    huber = Huber(delta)
    below, above = np.nextafter(delta, 0.0) ** 2, np.nextafter(delta, np.inf) ** 2
    assert huber.value(delta**2) == pytest.approx(delta**2 / 2, rel=1e-15)
    assert huber.value(above) == pytest.approx(float(huber.value(below)), rel=1e-15)
    assert huber.gamma(above) == pytest.approx(float(huber.gamma(below)), rel=1e-15)
    # a central difference across the kink is off by no more than the jump of h'' times the step
    across = (huber.value((delta + 1e-6) ** 2) - huber.value((delta - 1e-6) ** 2)) / 2e-6
    assert across == pytest.approx(delta, abs=1e-6)


@losses
def test_value_is_that_of_the_paper_to_fourteen_digits(loss):
    squares = np.concatenate((SQUARES, np.linspace(0.01, 4.0, 400)))
    expected = [exact_value(loss, s) for s in squares.tolist()]
    np.testing.assert_allclose(loss.value(squares), expected, rtol=1e-14, atol=5e-324)


@losses
def test_gamma_is_the_derivative_of_the_loss_of_the_paper_to_fourteen_digits(loss):
    squares = np.concatenate((SQUARES[2:], np.linspace(0.01, 4.0, 400)))
    expected = [exact_gamma(loss, s) for s in squares.tolist()]
    # A subnormal number has no fourteen digits.
    np.testing.assert_allclose(loss.gamma(squares), expected, rtol=1e-14, atol=5e-324)


@losses
def test_value_and_gamma_are_finite_nonnegative_and_silent_from_zero_to_1e300(loss):
    with np.errstate(all="raise", under="ignore"):
        value, gamma = loss.value(SQUARES), loss.gamma(SQUARES)
    for numbers in (value, gamma):
        assert numbers.shape == SQUARES.shape
        assert numbers.dtype == np.float64
        assert np.isfinite(numbers).all()
        assert (numbers >= 0).all()


@losses
def test_value_never_falls_and_gamma_never_turns(loss):
    value, gamma = loss.value(SQUARES), loss.gamma(SQUARES)
    assert (np.diff(value) >= 0).all()
    turns = np.sign(np.diff(gamma))
    assert (turns >= 0).all() or (turns <= 0).all()
    assert gamma.max() <= loss.smoothness


@losses
@settings(derandomize=True, deadline=None)
@given(near=st.floats(1e-3, 1e8), gap=st.floats(1e-6, 1e3))
def test_a_farther_row_always_costs_more(loss, near, gap):
    far = near * (1.0 + gap)
    assert loss.value(near * near) < loss.value(far * far)


@losses
def test_a_row_at_its_center_costs_least_of_all(loss):
    assert (loss.value(0.0) < loss.value(np.array([1e-6, 1.0, 1e6]) ** 2)).all()


@losses
def test_smoothness_is_the_least_upper_bound_of_the_curvature(loss):
    grid = np.geomspace(1e-5, 1e4, 1500)
    if type(loss) in KINKS:
        kink = KINKS[type(loss)](loss)
        grid = np.concatenate((grid, kink * (1 + np.geomspace(1e-9, 0.1, 50))))
        grid = np.concatenate((grid, kink * (1 - np.geomspace(1e-9, 0.1, 50))))
    sampled = np.array([curvature(loss, r) for r in grid])
    best = int(sampled.argmax())
    peak = minimize_scalar(
        lambda r: -curvature(loss, r),
        bounds=(grid[best] / 1.01, grid[best] * 1.01),
        method="bounded",
        options={"xatol": 1e-9 * grid[best]},
    )
    highest = max(sampled.max(), -peak.fun)
    assert highest <= loss.smoothness * (1 + 1e-12)
    assert highest >= loss.smoothness * (1 - 1e-6)
    assert sampled.min() >= 0  # the loss is convex


@pytest.mark.parametrize(("loss", "beta"), BETAS, ids=repr)
def test_smoothness_is_the_one_found_by_hand(loss, beta):
    assert loss.smoothness == pytest.approx(beta, rel=1e-10)


@pytest.mark.parametrize(
    ("loss", "least", "most"),
    [(Logistic(), 1.0, 2.0), (Fair(0.3), 0.0, 1.2), (Huber(2.0), 0.0, 1.0)],
    ids=repr,
)
def test_gamma_keeps_within_the_range_of_the_paper(loss, least, most):
    gamma = loss.gamma(SQUARES)
    assert gamma.min() >= least
    assert gamma.max() <= most
    assert sorted([gamma[0], gamma[-1]]) == pytest.approx([least, most], abs=1e-12)
