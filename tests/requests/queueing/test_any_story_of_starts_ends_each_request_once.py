"""Whatever clients, endpoints and starts do: each request ends once, in bounded time, and nothing is left."""

import math

from hand_shell import HandShell
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from one_plane import Plane

from headgate import routing
from headgate.flow.capacity import CapacitySettings
from headgate.flow.configuration import Queueing
from headgate.flow.queue import BandSettings, FlowSettings
from headgate.requests import effects, states, way
from headgate.requests.queueing.hints import QueueHints
from headgate.requests.queueing.pool_queue import PoolQueue

MOST, MOST_BYTES = 5, 600
START_TTL_S, TTL_S = 100.0, 40.0
STARTS = st.sampled_from(
    [
        None,
        routing.Start(0.0),
        routing.Start(20.0),
        routing.Start(20.0),
        routing.Start(20.0, "no GPU is free"),
    ]
)


class Shell(HandShell):
    """Clients have the patience that their prompt says."""

    def hints(self, life, flow_header):
        return QueueHints(flow="a", patience_s=float(life.request.header("patience") or math.inf))

    def failed(self, pool, what):
        raise


class Stories(RuleBasedStateMachine):
    @initialize(is_on=st.booleans(), start=STARTS, endpoints=st.integers(0, 2))
    def begin(self, is_on, start, endpoints):
        self.one = Plane(endpoints=endpoints, start=start, attempts=1)
        self.shell = Shell()
        self.is_on = is_on
        self.places = range(endpoints)
        self.queue = PoolQueue(self.one.plane, self.one.pool, self._queueing(), self.shell, self.one.now)
        self.one.pool.queue = self.queue
        self.lives = []
        self.began = {}
        """When each request came that is not over."""
        self.dues = {}

    def _queueing(self):
        flow = FlowSettings(
            is_on=self.is_on,
            ttl_s=TTL_S,
            no_endpoint_ttl_s=10.0,
            start_ttl_s=START_TTL_S,
            start_max_requests=MOST,
            start_max_bytes=MOST_BYTES,
            band=BandSettings(max_requests=50),
        )
        return Queueing(flow=flow, capacity=CapacitySettings(detector="concurrency-detector", max_requests=2))

    def _look(self):
        """Whatever is due now."""
        for _ in range(20):
            if not (self.shell.is_woken or self.shell.due_at <= self.one.now):
                return
            self.shell.look(self.one.now)
        raise AssertionError("the queue looks without end")

    def _serve(self):
        self.one.serve(self.places)
        self.queue.use(self.one.pool, self.one.now)
        self.one.pool.queue = self.queue
        self._look()

    def _in(self, *phases):
        return [each for each in self.lives if each.life.state in phases]

    @rule(size=st.integers(0, 300), patience=st.sampled_from(["", "", "5", "30"]), adapter=st.booleans())
    def comes(self, size, patience, adapter):
        is_empty, held = self.queue.room.is_empty, self.queue.held
        start = self.one.pool.pool.start
        shell = self.one.ask({"model": "m", "prompt": "x" * size}, patience=patience)
        self.lives.append(shell)
        self.began[shell] = self.one.now
        if start is not None and is_empty:
            if start.failure:
                assert (shell.refusal.status, shell.refusal.code) == (503, "start_failed")
                assert start.failure in shell.refusal.message
            elif held >= MOST:
                assert (shell.refusal.status, shell.refusal.code) == (503, "model_starting")
            elif not held and not patience:
                assert shell.life.state == states.QUEUED
            if shell.refusal is not None:
                assert shell.refusal.retry_after_s >= 1
                assert self.one.plane.waiting_for_endpoints()
        self._look()

    @precondition(lambda self: self._in(states.QUEUED, states.REACHING, states.SENT))
    @rule(data=st.data())
    def leaves(self, data):
        shell = data.draw(st.sampled_from(self._in(states.QUEUED, states.REACHING, states.SENT)))
        self.one.report(shell, way.client_gone)
        self._look()

    @rule(places=st.sampled_from([(), (), (0,), (1,), (0, 1)]))
    def endpoints_come_or_go(self, places):
        self.places = places
        self._serve()

    @rule(start=STARTS)
    def annotations_change(self, start):
        self.one.pool_fields["start"] = start
        self._serve()
        if start is not None and start.failure and self.queue.room.is_empty:
            assert not self.queue.held

    @rule()
    def flow_control_is_switched(self):
        self.is_on = not self.is_on
        self.queue.change(self._queueing(), self.one.now)
        self._look()

    @precondition(lambda self: self._in(states.REACHING, states.SENT))
    @rule(data=st.data(), how=st.sampled_from(["serves", "cannot be reached", "resets", "says 503"]))
    def an_endpoint_acts(self, data, how):
        shell = data.draw(st.sampled_from(self._in(states.REACHING, states.SENT)))
        one = self.one
        if shell.life.state == states.REACHING and how == "cannot be reached":
            one.report(shell, way.connect_failed, "refused")
        elif shell.life.state == states.REACHING:
            one.report(shell, way.sent)
        elif how == "serves":
            one.report(shell, way.head, 200, None)
            one.report(shell, way.finished)
        elif how == "says 503":
            one.report(shell, way.head, 503, None)
            if shell.life.state == states.ANSWERING:
                one.report(shell, way.finished)
        else:
            one.report(shell, way.endpoint_lost, "reset", is_crossed=False, has_begun=False)
        self._look()

    @rule(seconds=st.sampled_from([0.2, 1.0, 8.0, 25.0, 110.0]))
    def time_passes(self, seconds):
        end = self.one.now + seconds
        while self.one.now < end:
            self.one.now = min(end, self.one.now + 1.0, max(self.shell.due_at, self.one.now + 0.001))
            self._look()
            self.queue.sweep(self.one.now)
            self._look()
        for shell in self._in(states.QUEUED):
            assert self.one.now - shell.life.wait.place.arrived <= START_TTL_S + TTL_S

    @invariant()
    def books_balance(self):
        if not hasattr(self, "queue"):
            return
        for shell in self.lives:
            shell.life.validate()
            ends = [each for each in shell.done if isinstance(each, effects.Refuse | effects.Finish)]
            if shell.life.is_over:
                left = shell.life.account.outcome == "client_gone"
                assert len(ends) == (0 if left else 1), shell.done
        queued = self._in(states.QUEUED)
        assert self.queue.held == len(queued)
        assert {shell.life.wait.place.state for shell in queued} <= {"queued"}
        self.queue.names.validate()
        flying = self._in(states.REACHING, states.SENT)
        assert sum(load.requests for load in self.one.plane.ledger.loads()) <= len(flying)
        if self.queue.room.is_empty and not self.places and self.one.pool.pool.start is not None:
            assert not [each for each in self.shell.told if each == "failed"]

    def teardown(self):
        if not hasattr(self, "queue"):
            return
        self.places = ()
        self._serve()
        for shell in self._in(states.REACHING, states.SENT):
            self.one.report(shell, way.client_gone)
        self.time_passes(2 * START_TTL_S + TTL_S)
        assert all(shell.life.is_over for shell in self.lives)
        assert self.queue.held == 0
        assert self.queue.names.statistics()["flows"] == 0
        assert not list(self.queue.bands())
        assert self.shell.due_at == math.inf


Stories.TestCase.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)
TestStories = Stories.TestCase
