"""Limits of what a user may claim: honest users stay within them, and lies do not."""

from contextlib import suppress

import numpy as np
import pytest

from peer_runs import RANGES, iris, make_path_contract, rows_of
from peerclust.clustering import scaling
from peerclust.errors import DataError, PeerclustError
from peerclust.peers import configuration, setup
from peerclust.peers.setup_validation import refuse_agreed
from peerclust.programs.certificate import Certify
from peerclust.programs.limits import swap_limits
from peerclust.programs.protocol import NetworkMax, NetworkSum
from peerclust.runtimes import Loopback, run_program
from peerclust.runtimes.convergence import add_up, agree_on_curvature, carry_out

EVERYONE = (0, 1, 2, 3)


class CheckingLoopback(Loopback):
    """Messages between users, each checked as a peer checks it; a user may change what it says."""

    def __init__(self, graph, change=lambda said: said):
        super().__init__(graph)
        self.change, self.checked, self.refused = change, 0, []

    def _answer(self, said):
        said = [*said]
        said[0] = self.change(said[0])
        heard, sent = super()._answer(said)
        for user, message in enumerate(said):
            if isinstance(message, NetworkMax) and message.limits is not None:
                self._record(message.limits.refuse(message.v[0]))
            elif isinstance(message, NetworkSum) and message.refuse is not None:
                below = [said[j].v[0] for j in EVERYONE if user in self._above(j)]
                own = np.add.reduce(below)
                self._record(message.refuse(own, len(below)))
                if len(below) < len(said):
                    self._record(message.refuse(heard[user].v - own, len(said) - len(below)))
        return heard, sent

    def _record(self, reason):
        self.checked += 1
        self.refused += [reason] if reason else []

    def _above(self, user):
        found = [user]
        while self._tree.parent[found[-1]] >= 0:
            found.append(int(self._tree.parent[found[-1]]))
        return found


def take_part(terms, runtime, rows):
    """Do all that sites sum and compare: the set-up, a run, its certificate and a search."""
    agreed, users, x = setup.agree(terms, runtime, rows, EVERYONE, [], "")
    program = configuration.make_program(terms, agreed)
    run = run_program(runtime, program, users, x, rounds=20)
    certify = configuration.make_certify(terms, agreed)
    run_program(runtime, certify, users, run.x, rounds=certify.rounds)
    x = run.x
    own = np.concatenate(users.swap_costs(users.assign(x), x), axis=1)
    plans = add_up(own, users.m, swap_limits(users, 3)), agree_on_curvature(users, x, users.m)
    for plan in plans:
        carry_out(
            plan,
            lambda task: run_program(runtime, task.program, users, task.start, rounds=task.rounds),
        )
    return agreed, run


HONEST = [
    {},
    {"solver": "exact", "rho": "auto", "on_loss": "stop"},
    {"solver": "exact", "rho": "auto", "on_loss": "stop", "loss": "fair", "eta": 2.0},
    {"solver": "exact", "rho": "auto", "on_loss": "stop", "loss": "logistic", "scale": "none"},
    {"solver": "exact", "rho": "auto", "on_loss": "stop", "matrix": np.diag([4.0, 1, 2, 3])},
    {"loss": "huber", "delta": "auto", "scale": "robust"},
    {"loss": "fair", "rho": 2.0, "scale": "none"},
    {"loss": "logistic", "solver": "dgc"},
    {"solver": "admm", "rho": "auto", "on_loss": "stop", "matrix": np.diag([4.0, 1, 2, 3])},
    {"solver": "group-lasso", "rho": "auto", "on_loss": "stop"},
    {"rho": "auto"},
]


@pytest.mark.parametrize("weighted", [False, True], ids=["rows", "weights"])
@pytest.mark.parametrize("ranges", [None, RANGES], ids=["no ranges", "ranges"])
@pytest.mark.parametrize("given", HONEST, ids=str)
def test_no_message_of_an_honest_user_is_refused_even_at_the_limits(given, ranges, weighted):
    parts = [part.copy() for part in iris(4)]
    # Rows in the corners of the box, and a user whose weight is all that is allowed.
    parts[1][:2] = np.array(RANGES).T
    sizes = [len(part) for part in parts]
    weights = np.random.default_rng(0).uniform(0, 2, sum(sizes)) if weighted else 1.0
    each = np.split(np.broadcast_to(weights, sum(sizes)), np.cumsum(sizes)[:-1])
    terms = make_path_contract(
        ranges=ranges,
        max_weight=float(max(own.sum() for own in each)),
        weights_column="w" if weighted else None,
        **given,
    )
    runtime = CheckingLoopback(terms.graph)
    agreed, _ = take_part(terms, runtime, rows_of(parts, weights))
    assert runtime.checked > 80
    assert runtime.refused == []
    assert refuse_agreed(terms, agreed) == ""


def lie(kind, number, factor):
    """Return a change of the first message of a kind: one of its numbers, times a factor."""

    def change(said):
        if isinstance(said, kind) and (said.refuse if kind is NetworkSum else said.limits):
            v = said.v.copy()
            v.reshape(-1)[number] = (v.reshape(-1)[number].astype(float) * factor).astype(v.dtype)
            return type(said)(v, said.refuse if kind is NetworkSum else said.limits)
        return said

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lie(NetworkMax, 0, 1e12), "a total weight of"),
        (lie(NetworkMax, 1, 1e12), "a sum of rows of"),
        (lie(NetworkSum, 0, 3.0), "a total weight of"),
    ],
)
def test_a_claim_outside_of_its_limits_is_refused(change, reason):
    terms = make_path_contract(ranges=RANGES, max_weight=38.0)
    runtime = CheckingLoopback(terms.graph, change)
    # Here the run goes on with the lie, where a peer is refused.
    with suppress(PeerclustError):
        take_part(terms, runtime, rows_of(iris(4)))
    assert any(each.startswith(reason) for each in runtime.refused), runtime.refused


def test_a_count_of_users_other_than_those_of_the_subtree_is_refused():
    terms = make_path_contract(ranges=RANGES, max_weight=38.0)
    agreed, users, x = setup.agree(terms, Loopback(terms.graph), rows_of(iris(4)), EVERYONE, [], "")
    runtime = CheckingLoopback(terms.graph, lie(NetworkSum, 0, 2.0))
    program = Certify(4, rho=agreed.rho, lambda_2=agreed.lambda_2)
    run_program(runtime, program, users, x, rounds=3)
    assert runtime.refused[0] == "a count of 2, which must be 1 to 1"


@pytest.mark.parametrize("by", [-1e3, 1e3])
def test_totals_that_no_rows_in_the_ranges_have_stop_the_run(monkeypatch, by):
    honest = scaling._total

    def lie_about_feature_1(*given):
        total, sent = honest(*given)
        return total + by * (np.arange(len(total)) == 1), sent

    monkeypatch.setattr(scaling, "_total", lie_about_feature_1)
    terms = make_path_contract(ranges=RANGES, max_weight=38.0)
    with pytest.raises(DataError, match=r"The mean of feature 1 .* in its range, 1 to 5"):
        setup.agree(terms, Loopback(terms.graph), rows_of(iris(4)), EVERYONE, [], "")


def test_an_exact_step_out_of_the_box_stops_the_run():
    terms = make_path_contract(
        ranges=RANGES, max_weight=38.0, solver="exact", rho="auto", on_loss="stop", scale="none"
    )
    agreed, users, x = setup.agree(terms, Loopback(terms.graph), rows_of(iris(4)), EVERYONE, [], "")
    program = configuration.make_program(terms, agreed)

    def change(said):
        # Gradients that its weight would allow, at a curvature of nothing.
        if isinstance(said, NetworkSum) and said.v.shape == (1, 16):
            numbers = said.refuse.func.__self__
            values = np.zeros((1, 16))
            values[0, 2::5] = 38.0
            if numbers.fits(values).all():
                return NetworkSum(numbers.encode(values), said.refuse)
        return said

    with pytest.raises(DataError, match="move a center out of the box of the data"):
        run_program(CheckingLoopback(terms.graph, change), program, users, x, rounds=6)
