"""Agreements of a run: certificates of the peers that are connected, whoever is lost and when."""

from typing import NamedTuple

import numpy as np
import pytest

from joined_nodes import Run
from peerclust.graphs import erdos_renyi, path, ring
from peerclust.programs.certificate import Certify
from peerclust.runtimes import Loopback, run_program
from peerclust.runtimes.convergence import agree_on_curvature
from peerclust.runtimes.network.messages import unpack_centers
from peerclust.runtimes.network.record import digest
from peerclust.runtimes.network.states import RunState
from peerclust.runtimes.network.wire import Kind
from peerclust.users import Users


def make_parts(m):
    rng = np.random.default_rng(5)
    return [rng.normal(size=(20, 1)) + 3.0 * rng.choice([-1, 1], size=(20, 1)) for _ in range(m)]


def certify_again(run, members, graph):
    """Return what the members find, on the reference runtime, at the centers where they ended."""
    parts = [run.parts[i] for i in members]
    users = Users(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))
    certify = Certify(run.certify.m, rho=run.certify.rho, lambda_2=graph.lambda_2.value)
    x = np.concatenate([run.loops[i].state.x for i in members])
    again = run_program(Loopback(graph), certify, users, x, rounds=certify.rounds)
    return certify.read(again.states[0])


def same(one, other):
    return all(np.array_equal(value, getattr(other, name)) for name, value in vars(one).items())


def test_peers_end_with_the_certificate_of_the_reference_runtime():
    graph = erdos_renyi(6, 0.5, random_state=1)
    run = Run(graph, make_parts(6))
    outcomes = run.outcomes()
    assert {outcome.state.round for outcome in outcomes.values()} == {outcomes[0].state.round}
    expected = certify_again(run, range(6), graph)
    for outcome in outcomes.values():
        assert outcome.stopped
        assert same(outcome.found, expected)
        assert outcome.found.residual <= 1e-3 * run.spread


def signers(run, i):
    """Return who signed the record of a peer, as far as that one knows."""
    return {each.origin.peer for each in run.net.nodes[i].signing.signatures(run.records[i])}


def test_peers_that_end_together_sign_one_record_and_all_come_to_know_that():
    run = Run(erdos_renyi(6, 0.5, random_state=1), make_parts(6))
    outcomes = run.outcomes()
    records = {digest(record) for record in run.records.values()}
    assert len(records) == 1
    last = outcomes[0].state.round - 1
    for i, record in run.records.items():
        assert record.members == list(range(6))
        assert record.took_part == [[(0, last)]] * 6
        assert signers(run, i) == set(range(6))
        mean = np.mean([outcome.state.x[0] for outcome in outcomes.values()], axis=0)
        assert np.allclose(unpack_centers(record.centers, 2), mean, rtol=0, atol=1e-12)


def test_a_run_that_proposes_to_stop_too_early_continues():
    # With a curvature that is far too large, every gradient seems short.
    run = Run(ring(5), make_parts(5), curvature=np.full(2, 1e5), rho=200.0, rounds=4000)
    outcomes = run.outcomes()
    assert all(node.session.agreed > 1 for node in run.net.nodes)
    for i, outcome in outcomes.items():
        assert outcome.found.residual <= 1e-3 * run.spread
        assert outcome.state.round == outcomes[0].state.round
        # Nothing starts anew, and no exchange is repeated.
        heard = [event[1] for event in run.journals[i] if event[0] == "heard"]
        assert heard == list(range(outcome.state.round))
        assert not any(event[0] == "start" for event in run.journals[i])
    x = np.concatenate([outcome.state.x for outcome in outcomes.values()])
    parts = run.parts
    users = Users(np.concatenate(parts), np.cumsum([0, *map(len, parts)]))
    start = np.broadcast_to(run.x, (5, 2, 1))
    rounds = outcomes[0].state.round
    again = run_program(Loopback(ring(5)), run.program, users, start, rounds=rounds)
    assert np.array_equal(again.x, x)


@pytest.mark.parametrize("keeps", ["the first", "the last"])
def test_a_plan_may_start_the_solver_from_other_centers_and_end_with_earlier_ones(keeps):
    ends = []

    def plan(loop, start):
        first = yield from loop.plan.first(start)
        curvature, _ = yield from agree_on_curvature(loop.plan.users, first.run.x + 0.5, 5)
        last = yield from loop.plan.next(first.run.x + 0.5, curvature, loop.plan.threshold)
        assert last.run.rounds == first.run.rounds + last.rounds
        ends.append((first, last))
        return first if keeps == "the first" else last

    run = Run(ring(5), make_parts(5))
    outcomes = run.outcomes(plan)
    assert len(outcomes) == len(ends) == 5
    first, last = ends[0]
    users = Users(np.concatenate(run.parts), np.cumsum([0, *map(len, run.parts)]))
    x = np.broadcast_to(run.x, (5, 2, 1))
    x = run_program(Loopback(ring(5)), run.program, users, x, rounds=first.rounds).x
    if keeps == "the last":
        moved = run_program(Loopback(ring(5)), run.program, users, x + 0.5, rounds=last.rounds)
        x = moved.x
    for i, outcome in outcomes.items():
        assert outcome.state.x.tobytes() == x[i : i + 1].tobytes()
        assert outcome.state.round == first.rounds + last.rounds
        starts = [event[1] for event in run.journals[i] if event[0] == "start"]
        again = [first.rounds, first.rounds + last.rounds][: 1 + (keeps == "the first")]
        assert starts == again


class Exchange(NamedTuple):
    """An exchange: its kind, and whether it is of the barrier of an agreement."""

    kind: Kind
    complete: bool


def die_at(run, i, count):
    """Cut a peer off before its exchange number `count`; return the list of exchanges made."""
    node, made = run.net.nodes[i], []
    exchange = node.lockstep.exchange

    async def dying(kind, *args, **given):
        complete = node.session.state is RunState.AGREEMENT_BARRIER
        made.append(Exchange(kind, complete))
        if len(made) == count:
            run.net.cut_off(i)
            await run.net.loop.create_future()
        return await exchange(kind, *args, **given)

    node.lockstep.exchange = dying
    return made


@pytest.mark.slow
@pytest.mark.parametrize("graph", [ring(5), path(4), erdos_renyi(6, 0.5, random_state=1)], ids=str)
def test_a_peer_lost_at_any_time_leaves_the_others_with_a_certificate_of_those_present(graph):
    whole = Run(graph, make_parts(graph.m))
    made = die_at(whole, 1, -1)
    whole.outcomes()
    first = next(n for n, each in enumerate(made) if each.kind is Kind.AGREE)
    # From well before the stop is announced to the end.
    for count in range(first - 8, len(made) + 1):
        run = Run(graph, make_parts(graph.m), seed=count)
        die_at(run, 1, count)
        outcomes = run.outcomes()
        for i, outcome in outcomes.items():
            members = list(run.net.nodes[i].membership.views.component(i))
            left = [j for j in members if j not in run.net.dead]
            assert all(same(outcomes[j].found, outcome.found) for j in left), count
            expected = certify_again(run, members, run.living(members))
            if not made[count - 1].complete:
                assert left == members
                assert same(outcome.found, expected), count
            elif not same(outcome.found, expected):
                # It was lost when all had its numbers already.
                assert same(outcome.found, certify_again(run, range(graph.m), graph)), count
            record = run.records[i]
            assert digest(record) == digest(run.records[left[0]]), count
            assert signers(run, i) - run.net.dead == set(left), count
            assert all(record.took_part[j] == [(0, record.round - 1)] for j in left), count
