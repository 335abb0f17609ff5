"""Flows that have requests waiting get their shares of the work, whatever the sizes of their requests."""

import random

import pytest
from flow_pools import Room
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.flow.queue import FlowQueue, FlowSettings, Usage, Waiting

WORKS = st.integers(1, 20_000)
FLOWS = ("a", "b", "c")
NOW = 0.0


def backlogged(room, works, weights, quantum):
    """A queue, and what adds the next request of a flow to it, of the sizes that are told; says if it did."""
    queue = FlowQueue(FlowSettings(weights=weights, quantum=quantum), room, random.Random(1))
    lines = {flow: iter(sizes) for flow, sizes in works.items()}

    def refill(flow):
        work = next(lines[flow], None)
        if work is not None:
            waiting = Waiting(None, flow=flow, priority=0, work=work, size=1, arrived=NOW)
            assert queue.enter(waiting, NOW) is None
        return work is not None

    return queue, refill


@settings(max_examples=80, deadline=None)
@given(data=st.data(), quantum=st.sampled_from([1, 100, 1000, 50_000]), late=st.integers(0, 6))
def test_the_gap_between_two_flows_never_exceeds_the_bound(data, quantum, late):
    """|W_i/w_i - W_j/w_j| <= Q + L_i/w_i + L_j/w_j, over any stretch in which both have requests waiting."""
    works = {flow: data.draw(st.lists(WORKS, min_size=8, max_size=40)) for flow in FLOWS}
    weights = {flow: data.draw(st.sampled_from([0.5, 1.0, 3.0])) for flow in FLOWS}
    queue, refill = backlogged(Room(10**9), works, weights, quantum)
    for flow in "aabb":
        refill(flow)
    sent = dict.fromkeys(FLOWS, 0)
    history = [dict(sent)]
    goes_on = True
    while goes_on:
        if len(history) == late + 1:  # the third comes when the others are in the middle of their turns
            refill("c")
            refill("c")
        waiting = queue.next(NOW)
        sent[waiting.flow] += waiting.work
        history.append(dict(sent))
        goes_on = refill(waiting.flow)
    for one, other, since in (("a", "b", 0), ("b", "c", late), ("a", "c", late)):
        gaps = [each[one] / weights[one] - each[other] / weights[other] for each in history[since:]]
        bound = quantum + max(works[one]) / weights[one] + max(works[other]) / weights[other]
        assert max(gaps) - min(gaps) <= bound + 1e-6


def test_a_flow_that_comes_begins_with_the_next_round(queue_of, wait, drain):
    """Before those that were there already, whose turns alternate with its own from then on."""
    queue = queue_of(quantum=50)
    for flow in "ab":
        for _ in range(20):
            queue.enter(wait(flow, flow=flow, work=10), NOW)
    assert "".join(drain(queue, 3)) == "aaa"
    for _ in range(20):
        queue.enter(wait("c", flow="c", work=10), NOW)
    assert "".join(drain(queue, 27)) == "aa" + "bbbbb" + "cccccaaaaabbbbbccccc"


def test_small_requests_of_one_flow_go_as_far_as_large_ones_of_another(queue_of, wait, drain):
    """Shares are of tokens: ten requests of 100 go for each of 1000."""
    queue = queue_of()
    for _ in range(100):
        queue.enter(wait("small", flow="small", work=100), NOW)
        queue.enter(wait("large", flow="large", work=1000), NOW)
    went = drain(queue, 55)
    assert 45 <= went.count("small") <= 55
    assert 4 <= went.count("large") <= 6


def test_a_weight_is_a_share(queue_of, wait, drain):
    """A flow of weight 3 gets three times the work of one of weight 1."""
    queue = queue_of(weights={"gold": 3.0})
    for _ in range(100):
        queue.enter(wait("gold", flow="gold", work=500), NOW)
        queue.enter(wait("iron", flow="iron", work=500), NOW)
    assert drain(queue, 80).count("gold") == 60


def test_who_always_comes_back_has_no_more_than_its_turn(queue_of, wait, room):
    """A flow with one request at a time, which is there again at once, does not keep out one that waits."""
    queue = queue_of()
    for _ in range(50):
        queue.enter(wait("patient", flow="patient", work=1000), NOW)
    queue.enter(wait("eager", flow="eager", work=1000), NOW)
    went = []
    for _ in range(40):
        room.slots = 1
        went.append(queue.next(NOW).owner)
        if went[-1] == "eager":
            queue.enter(wait("eager", flow="eager", work=1000), NOW)
    assert went.count("patient") >= 19


def test_an_answer_that_was_longer_than_thought_is_paid_for(queue_of, wait, drain):
    """What a request took beyond its estimate is work that its flow has had."""
    queue = queue_of()
    talks = [wait("talker", flow="talker", work=1000) for _ in range(20)]
    for talk in talks:
        queue.enter(wait("modest", flow="modest", work=1000), NOW)
        queue.enter(talk, NOW)
    assert drain(queue, 2) == ["modest", "talker"]
    usage = Usage(prompt_tokens=500, output_tokens=5500)
    queue.served("talker", 0, 1000, usage, NOW, order=talks[0].order)
    assert drain(queue, 6).count("talker") <= 1


@pytest.mark.parametrize("output_tokens", [10, 10_000])
def test_what_a_flow_did_not_pay_for_is_not_given_back(queue_of, wait, drain, output_tokens):
    """Neither for requests that need not wait, nor for those of a time that is forgotten: they are no debt,
    either."""
    queue = queue_of()
    early = wait("early", flow="guesser", work=5000)
    queue.enter(early, NOW)
    assert drain(queue) == ["early"]
    for _ in range(10):
        for flow in ("guesser", "other"):
            queue.enter(wait(flow, flow=flow, work=1000), NOW)
    usage = Usage(prompt_tokens=10, output_tokens=output_tokens)
    queue.served("guesser", 0, 5000, usage, NOW, order=early.order)
    queue.served("guesser", 0, 5000, usage, NOW)
    assert drain(queue, 8).count("guesser") == 4


def test_a_large_request_has_its_turn_however_many_flows_come(queue_of, wait, room):
    """Ten rounds' work goes after ten rounds, although somebody new comes with each request that goes."""
    queue = queue_of(quantum=1000)
    for number in range(5):
        queue.enter(wait("new", flow=f"first {number}", work=800), NOW)
    queue.enter(wait("large", flow="large", work=10_000), NOW)
    for number in range(100):
        room.slots = 1
        if queue.next(NOW).owner == "large":
            break
        queue.enter(wait("new", flow=f"new {number}", work=800), NOW)
    assert 40 <= number <= 60


def test_flows_that_are_gone_are_forgotten(queue_of, wait, room):
    """Thousands of tenants that come once leave nothing behind."""
    queue = queue_of()
    queue.enter(wait("large", flow="large", work=10**9), NOW)
    for number in range(3000):
        queue.enter(wait(number, flow=str(number)), NOW)
        room.slots = 1
        queue.next(NOW)
    band = queue._bands.of(0)
    assert len(band.flows) == 1
    assert len(band.fairness._due._heap) < 200
