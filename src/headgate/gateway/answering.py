"""The answer on its way back: what the connection to the endpoint reports, passed on to the client.

Bytes flow as they come; once an answer flows, they need not pass here. What becomes of an answer that breaks
off, and the account of the request, are `Exchange`'s.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import httptools

from headgate.fleet import Suspect, blame
from headgate.gateway import decision_header, limiting, retry_after
from headgate.gateway.answer import Answer
from headgate.gateway.bodies import LONG_BYTES
from headgate.gateway.paired import PairedDelivery
from headgate.gateway.queueing.continuation import Continuation
from headgate.requests.refusal import Refusal
from headgate.requests.usage import Usage, tail_of

if TYPE_CHECKING:
    from headgate.gateway.listener import ClientConnection
    from headgate.gateway.proxy import Proxy
    from headgate.gateway.request import Request
    from headgate.gateway.upstream import FastPath, UpstreamConnection
    from headgate.requests.client import Header
    from headgate.requests.pool_state import PoolState

_OK, _NOT_FOUND, _LAST_STATUS = 200, 404, 599


class Answering(PairedDelivery):
    """Comes to `_settle` with a whole answer, and to `_break_off` with a part of one."""

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
        "refusal_bytes",
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
        self.refusal_bytes = 0
        """Of the body, if the gateway itself answers with an error."""
        self.bytes_in = len(request.body)
        self.sent_at = self.head_at = self.first_byte_at = 0.0
        """When the request was sent for the last time, and when the answer to that came; 0 is not yet."""
        self.heard_at = request.arrived_at
        """When the endpoint was last heard of, for the idle timeout."""
        self.outcome = ""
        self.tail = tail_of(request.path)
        self.usage: Usage | None = None
        """What the endpoint says that it counted; read at the end."""
        self._heard_bytes = 0
        self._answer: Answer | Continuation | None = None

    @abstractmethod
    def _limits_told(self) -> list[tuple[str, str]]:
        """What is left of the route's limit, for the decision in an answer's head."""

    @abstractmethod
    def _break_off(self, outcome: str, message: str) -> None:
        """No more of an answer comes of which the client may have a part."""

    @abstractmethod
    def _settle(self, outcome: str, now: float) -> None:
        """The request is over."""

    def _send_on(self, connection: UpstreamConnection, now: float) -> None:
        self._upstream = connection
        if self.handover is not None:
            self.handover.sent()
        self.sent_at = self.heard_at = now
        connection.send(self, self._payload, self._long_body)
        if self._client.is_paused:
            connection.pause_reading()

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        """The head of the answer is here: pass it on, or give the request to another endpoint.

        Raises HttpParserError for a status that HTTP has not (RFC 9110, 15), and as `Answer` does.
        """
        if status > _LAST_STATUS:
            raise httptools.HttpParserError(f"no status of HTTP: {status}")
        if self._timer is not None:
            self._cancel_timer()
        load, pool = self.load, self.pool
        assert load is not None
        assert pool is not None
        if status >= 400:
            rest_s = retry_after.seconds(headers) if status in retry_after.STATUSES else None
            back_at = [] if rest_s is None else self._back_at(pool, now + rest_s, now)
            if self._is_turned_down(status, rest_s, now):
                return
            if back_at:
                headers = retry_after.replaced(headers, min(back_at) - now)
        else:
            pool.evidence.silences[self.decision.stream].note(now - self.sent_at)
            if alone := pool.evidence.shared.served(self._shared_keys, load, now):
                self._blame(Suspect(other, status, None) for other, status in alone)
            load.served = self.decision.upstream_model, self.request.path
            if self.suspects is not None and not self._waits_for_prefill():
                self._blame(self.suspects.served())
        if load.lacking and status < 400:
            load.lacking.pop(self.decision.scheduled.adapter, None)
        if load.suspect_until > now and not blame.is_suspect(status):
            load.answered(now, self.sent_at)
        answer = self._answer = self._answer_of(status, headers, now)
        if answer.is_encoded and status < 400:
            self._inflate_beside(answer, headers)
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
        self._drop_body()
        if self.handover is None and (self.request.held_bytes <= LONG_BYTES or not connection.is_sending):
            self._proxy.bodies.release(self.request)

    def _inflate_beside(self, answer: Answer | Continuation, headers: list[Header]) -> None:
        """The endpoint compresses although it was asked not to: counts are read in a copy."""
        is_chunked = isinstance(answer, Answer) and answer.is_chunked
        self.tail = self._proxy.inflating.tail(self.tail, headers, is_chunked=is_chunked)

    def _back_at(self, pool: PoolState, at: float, now: float) -> list[float]:
        """When endpoints want requests again, if those that were asked all want none now."""
        asked = self.suspects.back_at() if self.suspects is not None else []
        return [at, *asked, *(load.resting_until for load in pool.loads if load.resting_until > now)]

    def _is_turned_down(self, status: int, rest_s: float | None, now: float) -> bool:
        """Whether an answer that is an error is dropped, as another endpoint is asked."""
        adapter = self.decision.scheduled.adapter
        if status == _NOT_FOUND and adapter:
            return self._goes_where_adapter_is(adapter, now)
        if blame.is_suspect(status):
            return self._goes_elsewhere(status, rest_s, now)
        if self.suspects is not None:
            self._blame(self.suspects.served())  # a mistake of the client, which only this one has found
        return False

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
        held = self.reservation
        return Answer(
            request,
            self.request_id,
            status,
            headers,
            may_keep_alive,
            decision.stream,
            decision.usage_unasked,
            decision.client_name,
            b"" if held is None else limiting.lines(held.limit, held.input_tokens, held.output_tokens, now),
        )

    def forward(self, data: bytes, now: float) -> None:
        """Passes body bytes on as they came; the first time together with the head."""
        answer, load = self._answer, self.load
        assert answer is not None
        assert load is not None
        if answer.unchunker is not None:
            data, _ = answer.unchunker.feed(data)
        self.heard_at = now
        if data:
            load.heard_at = now  # a head alone is sent by engines whose workers hang
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
                self._proxy.bodies.release(self.request)
                passed = self.handover.counted(passed)
            self._client.write(passed)

    def _first_byte(self, now: float) -> None:
        """The first byte of the body is here, and with it the first token."""
        self.first_byte_at = now
        if self.decision.stream and self.pool is not None and self.upstream_status < 400:
            self.pool.evidence.first_tokens.note(now - self.sent_at)
        if self.booking is not None and self.upstream_status < 400:
            self.booking.first_token(now)  # an error tells nothing of prefilling
            if self.handover is not None and self.decision.stream:
                self.handover.answered(now - self.sent_at)
            if self._proxy.queues.held:
                self._room_made()

    def fast_path(self) -> FastPath | None:
        """How further bytes of the answer come to the client; None if they must pass through `forward`."""
        answer, write = self._answer, self._client.writer()
        assert answer is not None
        if write is None or not self.first_byte_at or not answer.is_straight or answer.is_encoded:
            return None  # of a compressed answer, all bytes are needed to read its end
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
        if load is not None and load.failures_in_row and not blame.is_suspect(self.upstream_status):
            load.succeeded(now, self.sent_at)
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
            said = f"broke off before its answer: {message}"
            self._attempt_failed("reset", said, has_begun=connection.has_begun)

    def upstream_broke(self, message: str) -> None:
        """The endpoint's answer is not HTTP. Not retried: it may have done the work."""
        self._leave_upstream()
        if self.status:
            self._break_off("upstream_invalid", message)
        else:
            self._endpoint_failed("upstream_invalid")
            told = "the endpoint's answer is not valid HTTP"
            self._refuse(Refusal.upstream(told, code="upstream_invalid", logged=message))

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
