"""One request from arrival to settlement: its delivery, the answer on its way back, and one account of it.

States follow one another: those of a delivery, sent, forwarding, settled. Whatever ends it (the answer's end,
the client gone, an endpoint lost), `_settle` runs exactly once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headgate.gateway import decision_header, learning, limiting
from headgate.gateway.answer import Answer
from headgate.gateway.delivery import RETRIED
from headgate.gateway.limiting import showing
from headgate.gateway.paired import PairedDelivery
from headgate.gateway.queueing.continuation import Continuation
from headgate.gateway.refusals import Refusal, error_event
from headgate.gateway.usage import Tail, Usage

if TYPE_CHECKING:
    from headgate.fleet import EndpointLoad
    from headgate.gateway.listener import ClientConnection
    from headgate.gateway.proxy import Proxy
    from headgate.gateway.queueing.wait import Wait
    from headgate.gateway.request import Header, Request
    from headgate.gateway.settings import GatewaySettings
    from headgate.gateway.upstream import StraightWay, UpstreamConnection

_OK, _NOT_FOUND = 200, 404
CLIENT_GONE = 499
"""Logged as the status of a request whose client left before the end of the answer (nginx's number)."""


class Exchange(PairedDelivery):
    """What happens to one request. Read after the end by whoever records it."""

    __slots__ = (
        "_answer",
        "_client",
        "_heard_bytes",
        "bytes_in",
        "error_message",
        "first_byte_at",
        "head_at",
        "heard_at",
        "now",
        "outcome",
        "sent_at",
        "status",
        "tail",
        "upstream_status",
        "usage",
    )

    def __init__(self, proxy: Proxy, client: ClientConnection, request: Request) -> None:
        super().__init__(proxy, request)
        self.now = proxy.now
        self._client = client
        self.status = 0
        self.upstream_status = 0
        """Of the answer that is passed on."""
        self.error_message = ""
        self.bytes_in = len(request.body)
        self.sent_at = self.head_at = self.first_byte_at = 0.0
        """When the request was sent for the last time, and when the answer to that came; 0 is not yet."""
        self.heard_at = request.arrived_at
        """When the endpoint was last heard of, for the idle timeout."""
        self.outcome = ""
        self.tail = Tail()
        self.usage: Usage | None = None
        """What the endpoint says that it counted; read at the end."""
        self._heard_bytes = 0
        self._answer: Answer | Continuation | None = None

    @property
    def phase(self) -> str:
        """What it waits for, in a word or two."""
        if self.wait is not None and not self.wait.is_over:
            return "queued"
        if self.handover is not None and self.handover.is_prefilling and self._upstream is None:
            return "prefilling"
        if self._connecting is not None:
            return "connecting"
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

    def tried(self, now: float) -> list[tuple[str, str, int]]:
        """All attempts, once it is over: the endpoint's name, what happened, milliseconds."""
        tried = [*self.failed_attempts] if self.failed_attempts is not None else []
        if self.load is not None:
            tried.append((self.load.endpoint.name, self.outcome, int((now - self.attempt_at) * 1e3 + 0.5)))
        return tried

    def _send_on(self, connection: UpstreamConnection, now: float) -> None:
        self._upstream = connection
        if self.handover is not None:
            self.handover.sent()
        self.sent_at = self.heard_at = now
        connection.send(self, self._payload)
        if self._client.is_paused:
            connection.pause_reading()

    # -- what the upstream connection reports

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        """The head of the answer is here: pass it on, or give the request to another endpoint."""
        if self._timer is not None:
            self._cancel_timer()
        load, pool = self.load, self.pool
        assert load is not None
        assert pool is not None
        if status >= 400 and self._is_turned_down(load, status):
            return
        if load.failures_in_row and status < 500:
            load.answered(now)
        answer = self._answer = self._answer_of(status, headers, now)
        if self.request.wants_decision:
            answer.add(decision_header.line(self, self._limits_told()))
        if pool.policy.marks_answers and self.choice is not None:
            for name, value in self._marks(pool, self.choice):
                answer.add(b"%b: %b\r\n" % (name, value))
        if answer.ends_with_connection:
            connection.ends_with_connection()
        self.upstream_status = status
        self.status = status if isinstance(answer, Answer) else _OK
        self.head_at = now
        if self.wait is not None:
            self.wait.queue.answered(self.wait)
        # Nothing is sent again: a stream need not hold its prompt.
        self._payload = self.request.body = self.decision.body = b""

    def _is_turned_down(self, load: EndpointLoad, status: int) -> bool:
        """Whether an answer that is an error is dropped, as another endpoint is asked."""
        if status == _NOT_FOUND and self.decision.scheduled.adapter:
            self._proxy.scraper.list_models_soon(load)
        return status in RETRIED and self._goes_elsewhere(status)

    def _answer_of(self, status: int, headers: list[Header], now: float) -> Answer | Continuation:
        request, decision, wait = self.request, self.decision, self.wait
        may_keep_alive = request.keep_alive and not self._proxy.leaving
        if wait is not None and wait.has_head:
            return Continuation(
                request.target,
                status,
                headers,
                may_keep_alive,
                takes_usage=decision.usage_unasked,
                name=decision.client_name,
            )
        return Answer(
            request,
            self.request_id,
            status,
            headers,
            may_keep_alive,
            decision.stream,
            decision.usage_unasked,
            decision.client_name,
            limiting.lines(self.reservation, now) if self.reservation is not None else b"",
        )

    def forward(self, data: bytes, now: float) -> None:
        """Passes body bytes on as they came; the first time together with the head."""
        answer, load = self._answer, self.load
        assert answer is not None
        assert load is not None
        if answer.unchunker is not None:
            data = answer.unchunker.feed(data)
        self.heard_at = load.heard_at = now
        if data:
            if not self.first_byte_at:
                self._first_byte(now)
            self.tail.add(data)
            self.bytes_out += len(data)
        elif self.handover is not None and not answer.has_begun:
            return  # a head alone may still be taken back
        passed = answer.pass_on(data)
        if passed:
            if self.handover is not None:
                self.handover.forget()
                passed = self.handover.counted(passed)
            self._client.write(passed)

    def _first_byte(self, now: float) -> None:
        """The first byte of the body is here, and with it the first token."""
        self.first_byte_at = now
        if self.booking is not None and self.upstream_status < 400:
            self.booking.first_token(now)  # an error tells nothing of prefilling
            if self.handover is not None and self.decision.stream:
                self.handover.answered(now - self.sent_at)
            if self._proxy.queues.held:
                self._room_made()

    def straight_way(self) -> StraightWay | None:
        """How further bytes of the answer come to the client; None if they must pass through `forward`."""
        answer, write = self._answer, self._client.writer()
        assert answer is not None
        if write is None or not self.first_byte_at or not answer.is_straight:
            return None
        return answer.change, write if self.handover is None else self.handover.counting(write)

    def finished(self, now: float) -> None:
        """The answer is complete."""
        self._leave_upstream()
        answer, load = self._answer, self.load
        if answer is not None:
            if self.handover is not None and not answer.has_begun:
                self._client.write(answer.pass_on(b""))
            if not answer.is_plain and (held := answer.flush()):
                self._client.write(held if self.handover is None else self.handover.counted(held))
        if load is not None and load.failures_in_row and self.upstream_status < 500:
            load.succeeded(now)
        self._settle("served", now)
        self._client.exchange_done(answer is None or answer.keep_alive, now)

    def upstream_lost(self, connection: UpstreamConnection, message: str) -> None:
        """The connection ended before the answer did."""
        self._leave_upstream()
        if self.status:
            self._break_off("upstream_lost", message)
        elif connection.reused and not connection.has_begun:
            # The endpoint closed an idle connection just as we used it: not its failure, and nothing
            # was answered, so the same endpoint gets the request once more, on a fresh connection.
            assert self.load is not None
            assert self.pool is not None
            self._send_on_new(self._proxy.connections(self.pool, self.load))
        else:
            assert self.load is not None
            self._attempt_failed("reset", f"{self.load.endpoint.address}: {message}")

    def upstream_broke(self, message: str) -> None:
        """The endpoint's answer is not HTTP. Not retried: it may have done the work."""
        self._leave_upstream()
        if self.status:
            self._break_off("upstream_invalid", message)
        else:
            self._endpoint_failed("upstream_invalid")
            self._refuse(Refusal.upstream(message, code="upstream_invalid"))

    # -- time

    def sweep(self, now: float) -> None:
        """Gives up what was silent for too long; called about once a second, which costs requests nothing."""
        if self.handover is not None:
            self.handover.sweep(now)
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
            if silent_s > settings.stream_idle_timeout_s:
                self._client_stalled()
        elif self.status:
            if silent_s > settings.stream_idle_timeout_s:
                self._upstream_idle()
        elif silent_s > self._head_timeout_s(settings):
            self._no_head_in_time()
        elif silent_s > self.load.policy.hang_s:
            self.load.hanging += 1

    def _head_timeout_s(self, settings: GatewaySettings) -> float:
        """How long the endpoint may take for the head of its answer, where the pool does not say: then a
        timer runs."""
        assert self.pool is not None
        if self.pool.pool.timeout_s is not None:
            return math.inf
        return settings.stream_response_timeout_s if self.decision.stream else settings.response_timeout_s

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
        self._drop_upstream()
        self.status = CLIENT_GONE
        self._settle("client_gone", self.now())

    # -- ends

    def _refuse(self, refusal: Refusal) -> None:
        self._drop_upstream()
        if self.wait is not None and self.wait.has_head:
            self._refuse_stream(self.wait, refusal)
            return
        now = self.now()
        self.status = refusal.status
        self.error_message = refusal.message
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
        self.status = _OK
        self.error_message = refusal.message
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
        refusal = Refusal.upstream(f"the answer broke off: {message}", code=outcome)
        if self._answer is None or not self._answer.has_begun:
            self._answer = None
            self.bytes_out = 0
            self._refuse(refusal)
            return
        now = self.now()
        self.error_message = refusal.message
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
        self.tail = Tail()
        return True

    def _pass_on(self, status: int, headers: list[Header], body: bytes) -> None:
        kept = [each for each in headers if each[0] == b"content-type"]
        framed = [*kept, (b"content-length", b"%d" % len(body))]
        now = self.now()
        answer = self._answer_of(status, framed, now)
        self.upstream_status = status
        self.status = status if isinstance(answer, Answer) else _OK
        self.bytes_out = len(body)
        self._client.write(answer.pass_on(body) + answer.flush())
        self._settle("served", now)
        self._client.exchange_done(answer.keep_alive, now)

    def _settle(self, outcome: str, now: float) -> None:
        assert not self.settled, f"settled twice: {self.outcome}, then {outcome}"
        self.settled = True
        self.outcome = outcome
        if self._timer is not None:
            self._cancel_timer()
        if self.handover is not None:
            self.handover.settled(is_served=outcome == "served")
        if self._answer is not None and not self._answer.is_plain:
            self.bytes_out -= self._answer.taken_bytes
        booking = self.booking
        self._end_booking(now)
        if self.bytes_out:
            self.usage = self.tail.usage()
            if self.usage is not None and outcome == "served":
                learning.learn(self._proxy, self, self.usage, booking, now)
        if self.reservation is not None:
            limiting.settle(self, self.reservation, now)
        queue = self.pool.queue if self.pool is not None else None
        if queue is not None and (self.wait is not None or queue.counts_all):
            queue.settled(self, now)
        self._proxy.recorder.settled(self, now)
