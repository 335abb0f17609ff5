"""One request from arrival to settlement: its delivery, the answer on its way back, and one account of it.

States follow one another: those of a delivery, sent, forwarding, settled. Whatever ends it (the answer's end,
the client gone, an endpoint lost), `_settle` runs exactly once.
"""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import TYPE_CHECKING

from headgate.fleet import ACCEPTED_AFTER_S
from headgate.fleet.ejection import HANG
from headgate.gateway import decision_header, hollow, large_reader, learning, limiting, refusals
from headgate.gateway.answering import Answering
from headgate.gateway.limiting import showing
from headgate.gateway.refusals import error_event
from headgate.requests.refusal import Refusal
from headgate.requests.usage import tail_of

if TYPE_CHECKING:
    from headgate.gateway.queueing.wait import Wait
    from headgate.gateway.settings import GatewaySettings
    from headgate.requests.usage import Usage

_BROKE_OFF = {
    "gateway_exhausted": "the gateway can open no further connection",
    "idle_timeout": "the endpoint sent nothing for too long",
    "prefill_failed": "the endpoint that prefilled the prompt failed",
    "upstream_invalid": "the endpoint sent what is not valid HTTP",
    "upstream_lost": "the endpoint closed the connection",
}
"""What clients are told, by the outcome; only the log has the words of systems, which may name addresses."""
CLIENT_GONE = 499
"""Logged as the status of a request whose client left before the end of the answer (nginx's number)."""


class Exchange(Answering):
    """What happens to one request. Read after the end by whoever records it."""

    __slots__ = ()

    @property
    def phase(self) -> str:
        """What it waits for, in a word or two."""
        if self.wait is not None and not self.wait.is_over:
            return "queued"
        if self.handover is not None and self.handover.is_prefilling and self._upstream is None:
            return "prefilling"
        if self._connecting is not None:
            return "connecting"
        if isinstance(self._timer, large_reader.Reading):
            return "reading"
        if self._upstream is None:
            return "waiting to retry" if self.attempts else "waiting for tokens"
        return "answering" if self.status else "sent"

    @property
    def bytes_so_far(self) -> int:
        """Of the answer's body, as they came from the endpoint."""
        passed = self._upstream.passed_bytes if self._upstream is not None else 0
        return self.bytes_out + passed

    @property
    def taken_bytes(self) -> int:
        """By how much the answer became shorter on its way here."""
        return self._answer.taken_bytes if self._answer is not None else 0

    @property
    def is_encoded(self) -> bool:
        """Whether the bytes of its answer are compressed, so that they tell neither events nor counts."""
        return self._answer is not None and self._answer.is_encoded

    @property
    def plain_bytes(self) -> int:
        """How long its answer is before it was compressed; 0 if it was and could not be inflated."""
        return self.tail.plain_bytes if self.is_encoded else self.bytes_out + self.taken_bytes

    def tried(self, now: float) -> list[tuple[str, str, int]]:
        """All attempts, once it is over: the endpoint's name, what happened, milliseconds."""
        tried = [*self.failed_attempts] if self.failed_attempts is not None else []
        if self.load is not None:
            tried.append((self.load.endpoint.name, self.outcome, int((now - self.attempt_at) * 1e3 + 0.5)))
        return tried

    # -- time

    def sweep(self, now: float) -> None:
        """Gives up what was silent for too long; called about once a second, which costs requests nothing."""
        if self.handover is not None:
            self._sweep_prefill(self.handover, now)
        upstream = self._upstream
        if upstream is None:
            if self.wait is not None and not self.wait.is_over and not self._client.is_paused:
                self._tell_progress(self.wait, now)
            return  # waiting, connecting and waiting to retry have times of their own
        assert self.load is not None
        if upstream.passed_bytes != self._heard_bytes:
            self._heard_bytes = upstream.passed_bytes
            self.heard_at = self.load.heard_at = now
        silent_s = now - self.heard_at
        settings = self._proxy.settings
        if self._client.is_paused:
            if silent_s > settings.endpoints.stream_idle_timeout_s:
                self._client_stalled()
        elif self.status:
            if silent_s > settings.endpoints.stream_idle_timeout_s:
                self._upstream_idle()
            elif not self.first_byte_at and silent_s > self.load.policy.hang_s:
                self.load.hanging += 1
        elif silent_s > self._head_timeout_s(settings):
            self._no_head_in_time()
        else:
            self._waits_for_head(silent_s, now)

    def _waits_for_head(self, silent_s: float, now: float) -> None:
        """Judges endpoints by how long nothing has come."""
        pool, load = self.pool, self.load
        assert pool is not None
        assert load is not None
        if self.suspects is not None and silent_s > ACCEPTED_AFTER_S:
            self._blame(self.suspects.served())
        hang_s = load.policy.hang_s
        if silent_s > hang_s:
            load.hanging += 1
        long_s = pool.evidence.long_silence_s(self.decision.stream, hang_s, now)
        if silent_s > long_s and self._proxy.health.is_stopped(pool, load, long_s, now):
            self._stopped(now)

    def _head_timeout_s(self, settings: GatewaySettings) -> float:
        """How long the endpoint may take for the head of its answer, where the pool does not say: then a
        timer runs."""
        assert self.pool is not None
        if self.pool.pool.timeout_s is not None:
            return math.inf
        return (
            settings.endpoints.stream_response_timeout_s
            if self.decision.stream
            else settings.endpoints.response_timeout_s
        )

    def _upstream_idle(self) -> None:
        """The endpoint fell silent amid its answer."""
        self._drop_upstream()
        self._break_off("idle_timeout", "the endpoint sent nothing for too long")

    def _client_stalled(self) -> None:
        """The client reads nothing any more: its endpoint is not kept waiting for ever."""
        self._drop_upstream()
        self.status = CLIENT_GONE
        self._settle("client_stalled", self.now())
        self._client.abort()

    # -- what the client connection reports

    def pause(self) -> None:
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume(self) -> None:
        if self._upstream is not None:
            self._upstream.resume_reading()

    def client_gone(self) -> None:
        """Nobody waits for the answer any more: the endpoint stops at once."""
        self._judge_silence(self.now())
        self._drop_upstream()
        self.status = CLIENT_GONE
        self._settle("client_gone", self.now())

    def _judge_silence(self, now: float) -> None:
        """The client may have left because nothing came. Clients that wait for less than a hang takes to be
        told would hide it for ever."""
        pool, load = self.pool, self.load
        if self._upstream is None or self.first_byte_at:
            return
        assert pool is not None
        assert load is not None
        hang_s = load.policy.hang_s
        if self.status:
            long_s = pool.evidence.long_first_token_s(hang_s, now)
        else:
            long_s = pool.evidence.long_silence_s(self.decision.stream, hang_s, now)
        is_long = now - self.sent_at > long_s
        if is_long and self._proxy.health.is_silent(pool, load, self.sent_at):
            self._endpoint_failed(HANG)

    # -- ends

    def _refuse(self, refusal: Refusal) -> None:
        self._drop_upstream()
        if self.wait is not None and self.wait.has_head:
            self._refuse_stream(self.wait, refusal)
            return
        now = self.now()
        self.status = refusal.status
        self.error_message = refusal.log_message
        self.refusal_bytes = len(refusals.body(refusal, self.request.target))
        self._settle(refusal.code, now)
        if self.request.wants_decision:
            self.request.answer_lines += decision_header.line(self, self._limits_told(), refusal.code)
        self._client.refuse(refusal, self.request, self.request_id)
        self._client.exchange_done(self.request.keep_alive, now)

    def _limits_told(self) -> list[tuple[str, str]]:
        """What is left of the route's limit, for the decision in an answer's head."""
        match = self.decision.match
        limit = self._proxy.token_limits.by_route.get(match.route.key) if match is not None else None
        return showing.pairs(limit, self._proxy.now())

    def _tell_progress(self, wait: Wait, now: float) -> None:
        """Tells a client that asked for it how far the queue has come."""
        told = wait.tell(self, now)
        if told:
            self._client.write(told)

    def _refuse_stream(self, wait: Wait, refusal: Refusal) -> None:
        """Its client has the head of a stream: the stream ends with the event that says why."""
        now = self.now()
        self.status = HTTPStatus.OK
        self.error_message = refusal.log_message
        last = wait.refused(refusal, self.request.target)
        self._settle(refusal.code, now)
        self._client.write(last)
        self._client.exchange_done(self.request.keep_alive, now)

    @property
    def can_be_evicted(self) -> bool:
        """Whether it can still be taken back from its endpoint with a clean refusal."""
        return not self.settled and not self.status and self.load is not None

    def _break_off(self, outcome: str, message: str) -> None:
        """The client has part of an answer. Events end with one that says why; of anything else, ending the
        connection is the only honest sign left. An answer of which nothing was passed on is refused."""
        self._endpoint_failed(outcome)
        if self.handover is None or not self._take_back_answer() or not self._begins_again(outcome):
            self._cut_off(outcome, message)

    def _cut_off(self, outcome: str, message: str) -> None:
        refusal = Refusal.upstream(
            f"the answer broke off: {_BROKE_OFF.get(outcome, 'the endpoint failed')}",
            code=outcome,
            logged=f"the answer broke off: {message}",
        )
        if self._answer is None or not self._answer.has_begun:
            self._answer = None
            self.bytes_out = 0
            self._refuse(refusal)
            return
        now = self.now()
        self.error_message = refusal.log_message
        self._settle(outcome, now)
        last = self._answer.cut_off(lambda: error_event(refusal, self.request.target))
        if last is None:
            self._client.abort()
            return
        self._client.write(last)
        self._client.exchange_done(False, now)

    def _take_back_answer(self) -> bool:
        if self._answer is None:
            return True
        if self._answer.has_begun:
            return False
        self._answer = None
        self.bytes_out = self.status = self.upstream_status = 0
        self.head_at = self.first_byte_at = 0.0
        self.tail = tail_of(self.request.path)
        return True

    def _counted(self) -> Usage | None:
        """What the endpoint says that it counted, as far as that can be."""
        usage = self.tail.usage()
        if usage is None:
            return None
        answer_bytes = self.tail.plain_bytes or self.bytes_out + self.taken_bytes
        return usage if usage.is_possible(self.bytes_in, answer_bytes) else None

    def _judge_content(self, now: float) -> None:
        if self.usage is not None and self.usage.completion:
            return
        if self.pool is not None and self.load is not None and hollow.is_hollow(self, self.usage):
            self._proxy.health.disappointed(self.pool, self.load, hollow.REASON, now)

    def _settle(self, outcome: str, now: float) -> None:
        assert not self.settled, f"settled twice: {self.outcome}, then {outcome}"
        self.settled = True
        self.outcome = outcome
        if self._timer is not None:
            self._cancel_timer()
        if self.suspects is not None and self.pool is not None:
            is_served = outcome == "served" and self.upstream_status < 400
            self._blame(self.suspects.served() if is_served else self.suspects.compare(0))
        if self.handover is not None:
            self.handover.settled(is_served=outcome == "served")
        if self._answer is not None and not self._answer.is_plain:
            self.bytes_out -= self._answer.taken_bytes
        booking, usage = self.booking, None
        if self.bytes_out:
            self.usage = self._counted()
            usage = self.usage if outcome == "served" else None
        if outcome == "served" and self.upstream_status == HTTPStatus.OK:
            self._judge_content(now)
        self._end_booking(now, usage.completion if usage is not None else None)
        if usage is not None:
            learning.learn(self._proxy, self, usage, booking, now)
        if self.reservation is not None:
            limiting.settle(self, self.reservation, now)
        queue = self.pool.queue if self.pool is not None else None
        if queue is not None and (self.wait is not None or queue.counts_all):
            queue.settled(self, now)
        self._proxy.recorder.settled(self, now)
        if self.request.held_bytes:
            self._drop_body()
            self._proxy.bodies.release(self.request)
        if self.wait is not None:
            self.wait.let_go()
