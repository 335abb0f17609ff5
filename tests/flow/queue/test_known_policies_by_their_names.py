"""Policies of llm-d and Kthena choose as theirs do."""

import math

import pytest

from headgate.flow.queue import BandSettings, FlowSettings, SessionSettings, Usage, WindowSettings
from headgate.flow.queue.fairness import windowed


@pytest.fixture
def queue_by(queue_of):
    """Makes queues by the fields of their bands' settings, and others."""

    def make(fairness="global-strict-fairness-policy", ordering="fcfs-ordering-policy", **more):
        return queue_of(band=BandSettings(fairness=fairness, ordering=ordering), **more)

    return make


def used(prompt, output):
    return Usage(prompt_tokens=prompt, output_tokens=output)


def test_global_strict_serves_whoever_came_first(queue_by, wait, drain):
    """F14: tenants are ignored."""
    queue = queue_by("global-strict-fairness-policy")
    for owner in ("a1", "a2", "b1", "a3"):
        queue.enter(wait(owner, flow=owner[0]), 0.0)
    assert drain(queue) == ["a1", "a2", "b1", "a3"]


def test_round_robin_takes_one_of_each_by_name(queue_by, wait, drain):
    """Flows take turns in the order of their names, from the one after the last."""
    queue = queue_by("round-robin-fairness-policy")
    for owner in ("b1", "b2", "b3", "a1", "a2", "c1"):
        queue.enter(wait(owner, flow=owner[0]), 0.0)
    assert drain(queue, 3) == ["a1", "b1", "c1"]
    queue.enter(wait("c2", flow="c"), 0.0)
    assert drain(queue) == ["a2", "b2", "c2", "b3"]


def test_program_aware_prefers_who_was_served_least(queue_by, wait, drain):
    """Output tokens count twice, and half of it is forgotten after a minute."""
    queue = queue_by("program-aware-fairness")
    queue.served("a", 0, 0, used(1000, 0), 0.0)
    queue.served("b", 0, 0, used(0, 600), 0.0)
    for owner in ("b1", "a1"):
        queue.enter(wait(owner, flow=owner[0]), 0.0)
    assert drain(queue) == ["a1", "b1"]
    queue.served("a", 0, 0, used(0, 200), 60.0)  # 1000 / 2 + 400 against 1200 / 2
    for owner in ("a2", "b2"):
        queue.enter(wait(owner, flow=owner[0], arrived=60.0), 60.0)
    assert drain(queue, now=60.0) == ["b2", "a2"]


def test_program_aware_weighs_waiting_a_fifth(queue_by, wait, drain):
    """Of flows between the extremes of service, one that waits long goes before one that has just come."""
    queue = queue_by("program-aware-fairness")
    for flow, tokens in (("least", 0), ("long", 550), ("short", 500), ("most", 1000)):
        queue.served(flow, 0, 0, used(tokens, 0), 10.0)
    for flow, arrived in (("long", 0.0), ("most", 10.0), ("short", 10.0), ("least", 10.0)):
        queue.enter(wait(flow, flow=flow, arrived=arrived), arrived)
    assert drain(queue, now=10.0) == ["least", "long", "short", "most"]


def test_the_earliest_deadline_goes_first(queue_by, wait, drain):
    """A client's own patience counts as well as the time to live; without either, a request is last."""
    queue = queue_by(ordering="edf-ordering-policy")
    queue.enter(wait("none", deadline=float("inf")), 0.0)
    queue.enter(wait("ttl", deadline=60.0), 0.0)
    queue.enter(wait("hurry", deadline=60.0, gives_up_at=5.0), 0.0)
    assert drain(queue) == ["hurry", "ttl", "none"]


def test_the_earliest_objective_goes_first(queue_by, wait, drain):
    """Who has no objective for the first token is last."""
    queue = queue_by(ordering="slo-deadline-ordering-policy")
    queue.enter(wait("none"), 0.0)
    queue.enter(wait("late", slo_at=3.0), 0.0)
    queue.enter(wait("soon", slo_at=1.0), 0.0)
    assert drain(queue) == ["soon", "late", "none"]


def test_orders_hold_inside_each_flow(queue_by, wait, drain):
    """Fairness says whose turn it is, the order which of its requests."""
    queue = queue_by("round-robin-fairness-policy", "slo-deadline-ordering-policy")
    for owner, slo_at in (("a1", 9.0), ("a2", 1.0), ("b1", 5.0)):
        queue.enter(wait(owner, flow=owner[0], slo_at=slo_at), 0.0)
    assert drain(queue) == ["a2", "b1", "a1"]


def test_kthenas_fairness_prefers_who_used_least_in_the_window(queue_by, wait, drain):
    """R36: B goes before A, which has used 1000 weighted tokens; A's requests stay in their order."""
    queue = queue_by("windowed-usage")
    queue.served("A", 0, 0, used(400, 300), 0.0)
    for owner in ("A1", "A2", "B1"):
        queue.enter(wait(owner, flow=owner[0]), 1.0)
    assert drain(queue, now=1.0) == ["B1", "A1", "A2"]


@pytest.mark.parametrize(("weights", "total"), [((1.0, 2.0), 200), ((1.5, 3.0), 300)])
def test_kthenas_tokens_are_weighted(queue_by, wait, weights, total):
    """R37: 100 tokens in and 50 out are 200, or with weights 1.5 and 3.0 300."""
    window = WindowSettings(input_weight=weights[0], output_weight=weights[1])
    queue = queue_by("windowed-usage", window=window)
    queue.served("A", 0, 0, used(100, 50), 0.0)
    queue.enter(wait("A1", flow="A"), 1.0)
    assert queue.explain(1.0).bands[0].flows[0].standing == f"{total} used in 300 s"


def test_kthenas_window_slides(queue_by, wait, drain):
    """What was used before the window counts no more, also for requests that wait already."""
    queue = queue_by("windowed-usage", window=WindowSettings(window_s=60.0))
    queue.served("A", 0, 0, used(1000, 0), 0.0)
    queue.served("B", 0, 0, used(10, 0), 50.0)
    for owner in ("B1", "A1"):
        queue.enter(wait(owner, flow=owner[0], arrived=50.0), 50.0)
    assert drain(queue, now=62.0) == ["A1", "B1"]


def test_kthenas_window_is_bounded_in_memory(queue_by, wait, drain, monkeypatch):
    """However many names clients make up: the oldest are forgotten first."""
    monkeypatch.setattr(windowed, "MAX_BUCKETS", 100)
    queue = queue_by("windowed-usage")
    queue.served("A", 0, 0, used(1000, 0), 0.0)
    for number in range(99):
        queue.served(f"made up {number}", 0, 0, used(1, 0), 1.0)
    for owner in ("A1", "B1"):
        queue.enter(wait(owner, flow=owner[0], arrived=1.0), 1.0)
    assert queue.explain(1.0).bands[0].flows[0].standing == "1000 used in 300 s"
    queue.served("one more", 0, 0, used(1, 0), 1.0)
    assert queue.explain(1.0).bands[0].flows[0].standing == "0 used in 300 s"
    fairness = queue._bands.of(0).fairness
    assert len(fairness._buckets) == len(fairness._usage) == len(fairness._newest) == 100
    assert drain(queue, now=1.0) == ["A1", "B1"]


def test_kthenas_anonymous_requests_are_last(queue_by, wait, drain):
    """Whoever is not known does not go before those who are."""
    queue = queue_by("windowed-usage")
    queue.served("A", 0, 0, used(10**6, 0), 0.0)
    for owner, flow in (("nobody", ""), ("A1", "A")):
        queue.enter(wait(owner, flow=flow), 0.0)
    assert drain(queue) == ["A1", "nobody"]


def test_kthenas_order_has_no_cycles(queue_by, wait, drain):
    """A's usage grows while its requests wait: all of them are behind B's then, in their order."""
    queue = queue_by("windowed-usage")
    queue.served("B", 0, 0, used(100, 0), 0.0)
    queue.enter(wait("A1", flow="A"), 0.0)
    queue.enter(wait("B1", flow="B"), 0.0)
    queue.served("A", 0, 0, used(200, 0), 0.0)
    queue.enter(wait("A2", flow="A"), 0.0)
    queue.enter(wait("C1", flow="C"), 0.0)
    assert drain(queue) == ["C1", "B1", "A1", "A2"]


def test_sessions_that_were_just_served_go_first(queue_by, wait, drain):
    """The latest first; then all others as they came."""
    queue = queue_by("session-boost")
    for session in ("s1", "s2", "s3"):
        queue.served(session, 0, 0, used(10, 10), 0.0)
    for owner in ("new", "s1", "other", "s3", ""):
        queue.enter(wait(owner, flow=owner), 0.0)
    assert drain(queue) == ["s3", "s1", "new", "other", ""]


def test_sessions_are_forgotten_when_there_are_too_many(queue_by, wait, drain):
    """The one that was served longest ago loses its place, also while it waits."""
    queue = queue_by("session-boost", sessions=SessionSettings(max_sessions=1))
    queue.served("s1", 0, 0, used(10, 10), 0.0)
    for owner in ("new", "s1"):
        queue.enter(wait(owner, flow=owner), 0.0)
    queue.served("s2", 0, 0, used(10, 10), 0.0)
    assert drain(queue) == ["new", "s1"]


def test_after_an_answer_its_session_has_a_moment_to_come_back(queue_by, wait, drain):
    """In the grace only boosted sessions go; the queue says when it is over."""
    queue = queue_by("session-boost", sessions=SessionSettings(grace_s=0.5))
    queue.enter(wait("new", flow="new", arrived=1.0), 1.0)
    queue.served("s1", 0, 0, used(10, 10), 1.0)
    assert drain(queue, now=1.2) == []
    queue.enter(wait("s1", flow="s1", arrived=1.3), 1.3)
    assert drain(queue, 1, now=1.3) == ["s1"]
    assert queue.wake_at(1.3) == pytest.approx(1.5)
    assert drain(queue, now=1.5) == ["new"]


def test_graces_that_follow_one_another_hold_nobody_for_longer_than_one(queue_by, wait, drain):
    """With an end every 0.1 s it is never over, but who has waited for 0.5 s goes all the same."""
    queue = queue_by("session-boost", sessions=SessionSettings(grace_s=0.5))
    queue.enter(wait("new", flow="new", arrived=1.0), 1.0)
    queue.enter(wait("newer", flow="newer", arrived=1.3), 1.3)
    went = {}
    for tenth in range(10, 31):
        now = tenth / 10
        queue.served(f"s{tenth}", 0, 0, used(10, 10), now)
        went |= dict.fromkeys(drain(queue, now=now), now)
        assert queue.wake_at(now) <= (1.5 if now < 1.5 else 1.8 if now < 1.8 else math.inf)
    assert went == {"new": 1.5, "newer": 1.8}


def test_nobody_passes_while_a_session_may_come_back(queue_by, wait, room):
    """Where nobody waits, too: the room is kept for the grace, and then for all."""
    queue = queue_by("session-boost", sessions=SessionSettings(grace_s=0.5))
    room.slots = 10
    assert queue.passes(0, 0.0)
    queue.served("s1", 0, 0, used(10, 10), 1.0)
    assert not queue.passes(0, 1.2)
    queue.enter(wait("new", flow="new", arrived=1.2), 1.2)
    assert queue.next(1.2) is None
    queue.enter(wait("s1", flow="s1", arrived=1.3), 1.3)
    assert queue.next(1.3).owner == "s1"
    assert queue.next(1.5).owner == "new"
    assert queue.passes(0, 1.5)


def test_policies_that_there_are_not_are_named_with_those_that_there_are():
    """All that is wrong with settings is told at once."""
    with pytest.raises(ValueError, match=r"band\.fairness: no policy is called 'vtc'; there are .*deficit"):
        FlowSettings(band=BandSettings(fairness="vtc"))
    with pytest.raises(ValueError, match=r"ttl_s: .*; quantum: .*; weights\['a'\]: .*bands\[1\]\.ordering"):
        FlowSettings(ttl_s=-1, quantum=0, weights={"a": 0.0}, bands={1: BandSettings(ordering="lifo")})
