"""One request in virtual time: its `Life` decides what to do, simulated endpoints carry it out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from headgate.fleet import ACCEPTED_AFTER_S
from headgate.requests import blaming, effects, silence, states, way
from headgate.requests.account import SERVED
from headgate.requests.life import Life
from headgate.requests.pairing import DISAGGREGATED
from headgate.simulator.fleet.prefill import SimulatedPrefill
from headgate.simulator.fleet.records import Outcome, RequestRecord
from headgate.simulator.fleet.request import SimulatedAnswer, TracedRequest
from headgate.simulator.model import FinishedRequest, RequestId

if TYPE_CHECKING:
    from headgate import scheduling
    from headgate.fleet import EndpointState
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.pool_state import PoolState
    from headgate.requests.refusal import Refusal
    from headgate.simulator.fleet.endpoint import SimulatedEndpoint
    from headgate.simulator.fleet.observer import Observer
    from headgate.simulator.fleet.timeline import Timeline
    from headgate.simulator.fleet.transfers import SharedLink

_WRONG = 400
"""Status that an engine returns for a request that it rejects."""


class Gateway(Protocol):
    """State shared by the exchanges of a run."""

    plane: DataPlane
    timeline: Timeline
    observer: Observer
    link: SharedLink

    def endpoint(self, load: EndpointState) -> SimulatedEndpoint: ...
    def ended(self, exchange: SimulatedExchange) -> None:
        """The client has received everything."""


class SimulatedExchange:
    """Listens to the endpoint that serves the request."""

    def __init__(self, gateway: Gateway, request: TracedRequest, pool: PoolState) -> None:
        self.request = request
        self._gateway = gateway
        self._received = SimulatedAnswer()
        self.life = Life(gateway.plane, request, self._received, request.decision(pool))
        self._asked: SimulatedEndpoint | None = None
        """The endpoint that has the request,"""
        self._asked_as = RequestId("")
        """and the request ID used there."""
        self._is_refused = False
        """Whether an engine rejected the request as invalid."""
        self._prefill: SimulatedPrefill | None = None
        """The endpoint that prefills, or holds the prefilled cache."""
        self._prefilling: scheduling.Choice | None = None
        """The last choice for prefill."""
        self._sent_s: float | None = None
        """When it was first sent to an endpoint."""
        self._timers = 0

    @property
    def now(self) -> float:
        return self._gateway.timeline.now

    @property
    def request_id(self) -> RequestId:
        """The ID of its last attempt."""
        return RequestId(f"{self.request.number}.{self.life.account.attempts}")

    def start(self) -> None:
        way.decided(self.life, self.now)
        self.perform()

    # -- effects of its life

    def perform(self) -> None:
        todo = self.life.todo
        while todo:
            effect = todo.pop(0)
            _DO[type(effect)](self, effect)

    def _nothing(self, effect: effects.Effect) -> None:
        """Tokens need no response head."""

    def _fall_back(self, effect: effects.FallBack) -> None:
        way.decided(self.life, self.now)

    def _hold(self, effect: effects.Hold) -> None:
        pool = self.life.pool
        assert pool is not None
        assert pool.queue is not None
        pool.queue.hold(self, self.now)

    def admitted(self, pool: PoolState, now: float) -> None:
        way.admitted(self.life, pool, now)
        self.perform()

    def turn_away(self, refusal: Refusal, now: float) -> None:
        way.turned_away(self.life, refusal, now)
        self.perform()

    def _ask(self, effect: effects.Ask) -> None:
        gateway, life, load = self._gateway, self.life, effect.load
        self._begin(load)
        endpoint = self._asked = gateway.endpoint(load)
        self._asked_as = self.request_id
        way.sent(life, self.now)
        if life.suspects is not None and life.suspects.are_open:
            accepted = partial(self._accepted, life.account.attempts)
            gateway.timeline.at(self.now + ACCEPTED_AFTER_S, accepted, is_awaited=False)
        if self._prefill is not None and life.pairing is not None:
            if life.pairing.decision == DISAGGREGATED:
                endpoint.watch(self)
                self._prefill.hand_over(endpoint, self._fetched)
                return
            self._prefill = None
        elif life.pairing is not None:
            self._prefilling = None
        endpoint.send(self.request.asked(self._asked_as, endpoint.config), self)

    def _begin(self, load: EndpointState) -> None:
        if self._sent_s is None:
            self._sent_s = self.now
        self._gateway.observer.sent(self.request.timed, load, self.now)

    def _fetched(self, received_tokens: int) -> None:
        """The prompt's cache has arrived at the decode endpoint; with 0 tokens, the prompt is computed."""
        endpoint, self._prefill = self._asked, None
        assert endpoint is not None
        endpoint.unwatch(self)
        asked = self.request.asked(self._asked_as, endpoint.config, received_tokens=received_tokens)
        endpoint.send(asked, self)

    def _accepted(self, attempts: int) -> None:
        """An endpoint that still works on a request has not rejected it."""
        if self.life.account.attempts == attempts and self.life.state != states.OVER:
            blaming.accepted(self.life, self.now)

    def _begin_prefill(self, effect: effects.Prefill) -> None:
        load = effect.attempt.load
        self._begin(load)
        self._prefilling = effect.attempt.choice
        self._prefill = SimulatedPrefill(self, self._gateway, effect.attempt)
        self._prefill.start()

    def _drop_prefill(self, effect: effects.Effect) -> None:
        prefill, self._prefill = self._prefill, None
        if prefill is not None:
            prefill.give_up()

    def _start_timer(self, effect: effects.StartTimer) -> None:
        self._timers += 1
        self._gateway.timeline.at(self.now + effect.seconds, partial(self._timer_fired, self._timers))

    def _stop_timer(self, effect: effects.Effect) -> None:
        self._timers += 1

    def _timer_fired(self, number: int) -> None:
        if number == self._timers:
            way.timer(self.life, self.now)
            self.perform()

    def _drop(self, effect: effects.Effect) -> None:
        self._timers += 1
        self._drop_prefill(effect)
        endpoint = self._leave()
        if endpoint is not None:
            endpoint.unwatch(self)
            endpoint.cancel(self._asked_as)

    def _leave(self) -> SimulatedEndpoint | None:
        """The endpoint no longer has the request."""
        endpoint, self._asked = self._asked, None
        if endpoint is not None:
            endpoint.uptime.used_s = self.now
            self._gateway.observer.ended(self.request.timed, endpoint.load, self.now)
        return endpoint

    def _end(self, effect: effects.Effect) -> None:
        self._drop(effect)
        self._gateway.ended(self)

    # -- events from the endpoint

    def first_token(self) -> None:
        assert self._asked is not None
        self._gateway.observer.generated(self.request.timed, self._asked.load, self.now)
        if self.request.timed.is_streamed:
            self._answer_begins()

    def _answer_begins(self) -> None:
        """The gateway sees the first part of the response."""
        life, now, endpoint = self.life, self.now, self._asked
        assert endpoint is not None
        way.head(life, 200, None, now)
        way.heard(life, now)
        way.first_byte(life, now)
        self._received.has_passed = True
        self.perform()
        self._gateway.observer.first_token(self.request.timed, endpoint.load, now)

    def finished(self, finished: FinishedRequest) -> None:
        if not self.request.timed.is_streamed:
            self._answer_begins()
        self._received.finished = finished
        way.finished(self.life, self.now)
        self._leave()
        self.perform()

    def refused(self) -> None:
        """The request is invalid: the endpoint that says so is healthy."""
        self._is_refused = True
        self.responded(_WRONG, None)

    def responded(self, status: int, rest_s: float | None) -> None:
        way.head(self.life, status, rest_s, self.now)
        if self.life.state == states.ANSWERING:
            way.finished(self.life, self.now)
        self._leave()
        self.perform()

    def broken(self, cut_off: FinishedRequest | None) -> None:
        if self.life.state == states.ANSWERING:
            self._received.finished = cut_off
        way.endpoint_lost(self.life, "the engine is gone", self.now, is_crossed=False, has_begun=False)
        self._leave()
        if self._prefill is not None:
            self._prefill.give_up()
            self._prefill = None
        self.perform()

    def gone(self) -> None:
        """The endpoint died while it transferred the prefilled cache."""
        self.broken(None)

    def is_late(self, silent_s: float) -> bool:
        pool, load = self.life.pool, self.life.load
        if self.life.state != states.SENT or pool is None or load is None:
            return False
        hang_s, is_stream = load.policy.hang_s, self.life.decision.stream
        return silent_s > pool.evidence.long_silence_s(is_stream, hang_s, self.now)

    def leave(self) -> None:
        """The endpoint does not respond."""
        silence.leave_stopped(self.life, self.now)
        self.perform()

    # -- result

    def record(self) -> RequestRecord:
        """The record of a finished request."""
        timed, life, finished = self.request.timed, self.life, self._received.finished
        account, choice, now = life.account, life.choice, self.now
        outcome: Outcome = "failed"
        if account.outcome == SERVED:
            outcome = "served" if account.status < 400 else "refused" if self._is_refused else "failed"
        elif not account.attempts:
            outcome = "refused"
        wait, is_dropped = life.wait, self._sent_s is None
        return RequestRecord(
            number=self.request.number,
            arrived_s=timed.at_s,
            ended_s=now,
            outcome=outcome,
            endpoint=choice.load.endpoint.name if choice else "",
            prefill_endpoint=self._prefilling.load.endpoint.name if self._prefilling else "",
            attempts=account.attempts,
            prompt_tokens=timed.prompt_tokens,
            output_tokens=finished.output_tokens if finished else 0,
            cached_tokens=finished.cached_tokens if finished else 0,
            expected_cached_tokens=choice.cached_tokens if choice else 0,
            expected_first_token_s=choice.first_token_s if choice else None,
            first_token_s=account.first_byte_at or None,
            started_s=finished.started_s if finished else None,
            preemptions=finished.preemptions if finished else 0,
            session=timed.session,
            adapter=timed.adapter,
            tenant=timed.tenant,
            priority=timed.priority,
            queued_s=(now if self._sent_s is None else self._sent_s) - timed.at_s,
            why=wait.dropped_reason if wait is not None and is_dropped else "",
        )


_DO: dict[type[effects.Effect], Callable[[SimulatedExchange, Any], None]] = {
    effects.FallBack: SimulatedExchange._fall_back,
    effects.Hold: SimulatedExchange._hold,
    effects.Ask: SimulatedExchange._ask,
    effects.StartTimer: SimulatedExchange._start_timer,
    effects.StopTimer: SimulatedExchange._stop_timer,
    effects.Drop: SimulatedExchange._drop,
    effects.Prefill: SimulatedExchange._begin_prefill,
    effects.DropPrefill: SimulatedExchange._drop_prefill,
    effects.LeavePrefill: SimulatedExchange._drop_prefill,
    effects.Respond: SimulatedExchange._nothing,
    effects.TakeBack: SimulatedExchange._nothing,
    effects.Finish: SimulatedExchange._end,
    effects.Refuse: SimulatedExchange._end,
    effects.CutOff: SimulatedExchange._end,
    effects.PassWhole: SimulatedExchange._end,
}
"""How each effect is simulated. Bodies, token limits and slow connections are not simulated."""
