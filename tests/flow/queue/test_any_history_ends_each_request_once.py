"""Whatever happens in whatever order, a request that entered leaves once, in its turn; nothing is left."""

import math
import random

from flow_pools import Room
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headgate.flow.queue import FAIRNESS, ORDERINGS, BandSettings, FlowQueue, FlowSettings, Usage, Waiting

MAX, MAX_BYTES = 12, 400
BAND_MAX, BAND_BYTES = 7, 300
TTL_S, NO_ENDPOINT_TTL_S = 60.0, 20.0

REQUESTS = st.fixed_dictionaries(
    {
        "flow": st.sampled_from(["", "a", "b", "c"]),
        "priority": st.integers(-1, 1),
        "work": st.integers(1, 5000),
        "size": st.integers(1, 100),
        "patience": st.sampled_from([math.inf, math.inf, 5.0]),
        "slo": st.sampled_from([math.inf, 1.0, 2.0]),
    }
)


class Histories(RuleBasedStateMachine):
    """A queue beside a plain list of those that wait."""

    @initialize(
        fairness=st.sampled_from(FAIRNESS),
        ordering=st.sampled_from(ORDERINGS),
        floor=st.sampled_from([0.0, 0.0, 0.2]),
        promote_after=st.sampled_from([math.inf, math.inf, 30.0]),
        evicts=st.booleans(),
    )
    def begin(self, fairness, ordering, floor, promote_after, evicts):
        self.room = Room()
        self.ordering = ordering
        self.is_strict = not floor and promote_after == math.inf
        band = BandSettings(max_requests=BAND_MAX, max_bytes=BAND_BYTES, fairness=fairness, ordering=ordering)
        settings = FlowSettings(
            band=band,
            max_requests=MAX,
            max_bytes=MAX_BYTES,
            no_endpoint_ttl_s=NO_ENDPOINT_TTL_S,
            floor_share=floor,
            promote_after_s=promote_after,
            evicts_running=evicts,
            weights={"a": 2.0},
        )
        self.queue = FlowQueue(settings, self.room, random.Random(1))
        self.now = 0.0
        self.changed_at = -math.inf
        self.waiting: list[Waiting] = []
        self.ended: dict[Waiting, str] = {}

    def end(self, waiting, how):
        assert waiting not in self.ended, f"ended as {self.ended[waiting]}, and then as {how}"
        self.ended[waiting] = how
        if waiting in self.waiting:
            self.waiting.remove(waiting)

    def settle_dropped(self):
        for waiting, why in self.queue.dropped(self.now):
            if why.reason in ("rejected-ttl-expired", "rejected-no-endpoints"):
                assert self.end_of(waiting) <= self.now
            self.end(waiting, why.reason)
            assert why.status in (429, 503)
            assert why.retry_after_s >= 1

    def end_of(self, waiting):
        since = max(waiting.arrived, self.changed_at)
        return min(since + (NO_ENDPOINT_TTL_S if self.room.no_endpoints else TTL_S), waiting.gives_up_at)

    @rule(requests=st.lists(REQUESTS, min_size=1, max_size=8))
    def come(self, requests):
        for request in requests:
            self.comes(**request)

    def comes(self, flow, priority, work, size, patience, slo):
        now = self.now
        before = len(self.waiting)
        if self.queue.passes(priority, now):
            assert self.room.slots >= 0
            assert all(other.priority < priority for other in self.waiting)
            return
        waiting = Waiting(
            "",
            flow=flow,
            priority=priority,
            work=work,
            size=size,
            arrived=now,
            deadline=now + TTL_S,
            gives_up_at=now + patience,
            slo_at=now + slo,
        )
        refused = self.queue.enter(waiting, now)
        if refused is None:
            self.waiting.append(waiting)
        else:
            self.ended[waiting] = refused.reason
            full = before >= MAX or sum(each.size for each in self.waiting) + size > MAX_BYTES
            own = [each for each in self.waiting if each.priority == priority]
            assert full or len(own) >= BAND_MAX or sum(each.size for each in own) + size > BAND_BYTES
        for victim, why in self.queue.dropped(now):
            if why.reason.startswith("evicted"):
                assert victim.priority < priority or (victim.priority == priority and victim.flow != flow)
                lower = [each for each in self.waiting if each.priority < victim.priority]
                assert not lower or victim.priority == priority, "somebody less important could have gone"
                if victim.priority < priority:
                    rivals = [each for each in self.waiting if each.priority == victim.priority]
                    assert victim.order == max(each.order for each in rivals)
            self.end(victim, why.reason)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def hang_up(self, data):
        waiting = data.draw(st.sampled_from(self.waiting))
        self.queue.leave(waiting, self.now)
        self.queue.leave(waiting, self.now)
        self.end(waiting, "left")

    @rule(slots=st.integers(1, 6))
    def make_room(self, slots):
        self.room.slots = slots
        while True:
            could = list(self.waiting)
            waiting = self.queue.next(self.now)
            if waiting is None:
                break
            self.settle_dropped()
            could = [each for each in could if each in self.waiting]
            assert waiting in could
            if self.is_strict:
                assert waiting.priority == max(each.priority for each in could)
                rivals = [
                    each for each in could if (each.priority, each.flow) == (waiting.priority, waiting.flow)
                ]
                if self.ordering == "fcfs-ordering-policy":
                    assert waiting is rivals[0]
                elif self.ordering == "slo-deadline-ordering-policy":
                    assert waiting.slo_at == min(each.slo_at for each in rivals)
            self.end(waiting, "sent")
        self.settle_dropped()
        if self.room.slots > 0 and not self.room.no_endpoints:
            assert not self.waiting
        self.room.slots = 0

    @rule()
    def room_appears_and_nobody_asks(self):
        self.room.slots = 2

    @rule(seconds=st.sampled_from([0.001, 1.0, 7.0, 25.0, 61.0]))
    def time_passes(self, seconds):
        wakes_at = self.queue.wake_at(self.now)
        assert not self.waiting or wakes_at <= min(map(self.end_of, self.waiting))
        self.now += seconds
        due = [each for each in self.waiting if self.end_of(each) <= self.now]
        self.settle_dropped()
        assert not [each for each in due if each in self.waiting]

    @rule()
    def pool_empties_or_fills(self):
        self.room.no_endpoints = not self.room.no_endpoints
        self.changed_at = self.now
        self.settle_dropped()

    @rule(flow=st.sampled_from(["", "a", "b"]), priority=st.integers(-1, 1), output=st.integers(0, 3000))
    def an_answer_ends(self, flow, priority, output):
        self.queue.served(flow, priority, 500, Usage(prompt_tokens=500, output_tokens=output), self.now)

    @rule()
    def victims_are_asked_for(self):
        for waiting, why in self.queue.victims(self.now):
            assert self.ended[waiting] == "sent"
            assert waiting.priority < 0
            assert why.reason == "evicted"

    @invariant()
    def accounts_are_right(self):
        if not hasattr(self, "queue"):
            return
        self.queue.validate()
        statistics = self.queue.statistics()
        assert statistics["requests"] == len(self.waiting) == len(self.queue) <= MAX
        assert statistics["bytes"] == sum(each.size for each in self.waiting) <= MAX_BYTES
        assert statistics["work"] == sum(each.work for each in self.waiting)
        self.queue.explain(self.now)

    def teardown(self):
        if not hasattr(self, "queue"):
            return
        self.queue.close(self.now)
        self.settle_dropped()
        assert not self.waiting
        assert len(self.queue) == 0
        assert self.queue.wake_at(self.now) == math.inf
        self.queue.validate()


Histories.TestCase.settings = hypothesis_settings(max_examples=40, stateful_step_count=30, deadline=None)
TestHistories = Histories.TestCase
