"""One request from arrival to settlement: route, pick, send, retry, forward, and account for it once.

States follow one another: routing, connecting or waiting to retry, sent, forwarding, settled. Whatever ends
it (the answer's end, the client gone, an endpoint lost), `_settle` runs exactly once.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.gateway import decision_header
from headgate.gateway.answer import Answer
from headgate.gateway.decision import decide, no_endpoint
from headgate.gateway.refusals import Refusal, error_event
from headgate.gateway.upstream import ShortageError, why_unreachable
from headgate.gateway.usage import Tail

if TYPE_CHECKING:
    from headgate.fleet import EndpointLoad
    from headgate.gateway.listener import ClientConnection
    from headgate.gateway.proxy import PoolState, Proxy
    from headgate.gateway.request import Header, Request
    from headgate.gateway.settings import GatewaySettings
    from headgate.gateway.upstream import EndpointConnections, UpstreamConnection

CLIENT_GONE = 499
"""Logged as the status of a request whose client left before the end of the answer (nginx's number)."""

_RETRIED = frozenset({502, 503, 504})
"""Statuses by which an endpoint or a proxy before it says that another may do better."""

_REQUEST_ID = re.compile(rb"[!-~]{1,128}")
"""What a client may call its request: it is printed in logs and sent back."""


class Exchange:
    """What happens to one request. Read after the end by whoever records it."""

    __slots__ = (
        "_answer",
        "_client",
        "_connecting",
        "_heard_bytes",
        "_payload",
        "_proxy",
        "_timer",
        "_tried",
        "_upstream",
        "attempt_at",
        "attempts",
        "bytes_in",
        "bytes_out",
        "decision",
        "error_message",
        "failed_attempts",
        "first_byte_at",
        "head_at",
        "heard_at",
        "load",
        "outcome",
        "pool",
        "request",
        "request_id",
        "sent_at",
        "settled",
        "status",
        "tail",
        "upstream_status",
    )

    def __init__(self, proxy: Proxy, client: ClientConnection, request: Request) -> None:
        self._proxy = proxy
        self._client = client
        self.request = request
        given_id = request.given_id
        is_plain = given_id and _REQUEST_ID.fullmatch(given_id)
        self.request_id = given_id if is_plain else proxy.new_request_id()
        self.decision = decide(proxy, request)
        self.pool = self.decision.pool
        self.load: EndpointLoad | None = None
        self.attempts = 0
        self.attempt_at = request.arrived_at
        """When the last attempt began."""
        self.failed_attempts: list[tuple[str, str, int]] | None = None
        """Those before it: the endpoint's name, what happened, milliseconds."""
        self.status = 0
        self.upstream_status = 0
        """Of the answer that is passed on."""
        self.error_message = ""
        self.bytes_in = len(request.body)
        self.bytes_out = 0
        self.sent_at = self.head_at = self.first_byte_at = 0.0
        """When the request was sent for the last time, and when the answer to that came; 0 is not yet."""
        self.heard_at = request.arrived_at
        """When the endpoint was last heard of, for the idle timeout."""
        self.outcome = ""
        self.settled = False
        self.tail = Tail()
        self._payload = b""
        self._heard_bytes = 0
        self._upstream: UpstreamConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tried: list[EndpointLoad] = []
        self._answer: Answer | None = None

    @property
    def phase(self) -> str:
        """What it waits for, in a word or two."""
        if self._connecting is not None:
            return "connecting"
        if self._upstream is None:
            return "waiting to retry"
        return "answering" if self.status else "sent"

    @property
    def bytes_so_far(self) -> int:
        """Of the answer's body, as they came from the endpoint."""
        passed = self._upstream.passed_bytes if self._upstream is not None else 0
        return self.bytes_out + passed

    def tried(self, now: float) -> list[tuple[str, str, int]]:
        """All attempts, once it is over: the endpoint's name, what happened, milliseconds."""
        tried = [*self.failed_attempts] if self.failed_attempts is not None else []
        if self.load is not None:
            tried.append((self.load.endpoint.name, self.outcome, int((now - self.attempt_at) * 1e3 + 0.5)))
        return tried

    # -- choosing where to go

    def start(self) -> None:
        decision = self.decision
        if decision.refusal is not None:
            self._refuse(decision.refusal)
            return
        assert self.pool is not None
        self.pool.budget.requests += 1
        if self._proxy.settings.begin_traces:
            self._proxy.begin_trace(self.request)
        self._payload = self.request.message(decision.body, self.request_id)
        self._attempt()

    # -- attempts

    def _attempt(self) -> None:
        """Sends the request to an endpoint that was not tried yet."""
        self._timer = None
        assert self.pool is not None
        load = self._proxy.pick(self.pool, self._tried)
        if load is None:
            self._refuse(no_endpoint(self.pool, self._proxy.settings.max_endpoint_connections))
            return
        self.load = load
        self._tried.append(load)
        self.attempts += 1
        self.attempt_at = self._proxy.now()
        load.start(self.decision.prompt_tokens)
        timeout_s = self.pool.pool.timeout_s
        if timeout_s is not None:
            self._timer = self._proxy.loop.call_later(timeout_s, self._no_head_in_time)
        connections = self._proxy.connections(self.pool, load)
        connection = connections.take()
        if connection is not None:
            self._send_on(connection)
        else:
            self._send_on_new(connections)

    def _send_on_new(self, connections: EndpointConnections) -> None:
        self._connecting = self._proxy.spawn(self._connect(connections))

    async def _connect(self, connections: EndpointConnections) -> None:
        started_at = self._proxy.now()
        try:
            connection = await connections.connect()
        except ShortageError as error:
            self._connecting = None
            self._refuse(Refusal.unavailable(str(error), code="gateway_exhausted"))
            return
        except (OSError, ValueError) as error:  # a host that cannot even be encoded is a ValueError
            self._connecting = None
            self._attempt_failed("connect", f"{connections.endpoint.address} {why_unreachable(error)}")
            return
        self._connecting = None
        assert self.pool is not None
        self._proxy.recorder.connected(self.pool, self._proxy.now() - started_at)
        self._send_on(connection)

    def _send_on(self, connection: UpstreamConnection) -> None:
        self._upstream = connection
        self.sent_at = self.heard_at = self._proxy.now()
        connection.send(self, self._payload)
        if self._client.is_paused:
            connection.pause_reading()

    def _no_head_in_time(self) -> None:
        self._timer = None
        assert self.load is not None
        address = self.load.endpoint.address
        self._drop_upstream()
        self._attempt_failed("timeout", f"{address} sent no response head in time")

    def _attempt_failed(self, reason: str, message: str) -> None:
        """Ends an attempt that got no answer; tries another endpoint while that is allowed."""
        assert self.pool is not None
        self._end_attempt(reason)
        if self._may_retry(self.pool):
            self._retry()
        elif reason == "timeout":
            self._refuse(Refusal.upstream(message, code="upstream_timeout", status=504))
        elif reason == "connect":
            self._refuse(Refusal.unavailable(message, code="endpoint_unreachable"))
        else:
            self._refuse(Refusal.upstream(message, code="upstream_failed"))

    def _end_attempt(self, reason: str) -> None:
        assert self.load is not None
        assert self.pool is not None
        self._cancel_timer()
        load, self.load = self.load, None
        load.finish(self.decision.prompt_tokens)
        self._proxy.attempt_failed(self.pool, load, reason)
        if self.failed_attempts is None:
            self.failed_attempts = []
        took_ms = int((self._proxy.now() - self.attempt_at) * 1e3 + 0.5)
        self.failed_attempts.append((load.endpoint.name, reason, took_ms))

    def _may_retry(self, pool: PoolState) -> bool:
        """Whether the pool allows another attempt, has an endpoint that was not tried, and a retry to spare,
        which is spent. Its endpoints of now are meant: those of the request's arrival may be gone."""
        now = self._proxy.pools.get(pool.pool.key)
        if now is None:
            return False
        self.pool = now
        return (
            self.attempts <= self._proxy.retries(now)
            and self._proxy.pick(now, self._tried) is not None
            and self._proxy.take_retry(now)
        )

    def _retry(self) -> None:
        assert self.pool is not None
        interval_s = self.pool.pool.retry_interval_s
        if interval_s > 0:
            self._timer = self._proxy.loop.call_later(interval_s, self._attempt_after_interval)
        else:
            self._attempt()

    def _attempt_after_interval(self) -> None:
        self._timer = None
        assert self.pool is not None
        key = self.pool.pool.key
        pool = self._proxy.pools.get(key)
        if pool is None:
            why = f"ModelServer {key} was deleted while the request waited to be tried again"
            self._refuse(Refusal.unavailable(why, code="no_ready_endpoint"))
            return
        self.pool = pool
        self._attempt()

    # -- what the upstream connection reports

    def response_head(self, connection: UpstreamConnection, status: int, headers: list[Header]) -> None:
        """The head of the answer is here: pass it on, or give the request to another endpoint."""
        assert self.load is not None
        assert self.pool is not None
        if self._timer is not None:
            self._cancel_timer()
        load = self.load
        if status in _RETRIED:
            if self._may_retry(self.pool):
                self._drop_upstream()
                self._end_attempt(f"status_{status}")
                self._retry()
                return
            self._endpoint_failed(f"status_{status}")
        elif load.failures_in_row and status < 500:
            load.answered(self._proxy.now())
        answer = self._answer = Answer(
            self.request,
            self.request_id,
            status,
            headers,
            may_keep_alive=self.request.keep_alive and not self._proxy.leaving,
            is_stream=self.decision.stream,
            takes_usage=self.decision.usage_unasked,
            name=self.decision.client_name,
        )
        if self.request.wants_decision:
            answer.add(decision_header.line(self))
        if answer.ends_with_connection:
            connection.ends_with_connection()
        self.status = self.upstream_status = status
        self.head_at = self._proxy.now()
        # Nothing is sent again: a stream need not hold its prompt.
        self._payload = self.request.body = self.decision.body = b""

    def forward(self, data: bytes) -> None:
        """Passes body bytes on as they came; the first time together with the head."""
        assert self._answer is not None
        data = self._answer.unchunk(data)
        now = self.heard_at = self._proxy.now()
        assert self.load is not None
        self.load.heard_at = now
        if data:
            if not self.first_byte_at:
                self.first_byte_at = now
            self.tail.add(data)
            self.bytes_out += len(data)
        passed = self._answer.pass_on(data)
        if passed:
            self._client.write(passed)

    def straight_way(self) -> Callable[[bytes], None] | None:
        """Where further bytes of the answer may be written as they come; None if they must pass here."""
        assert self._answer is not None
        write = self._client.writer()
        if write is None or not self.first_byte_at:
            return None
        return self._answer.filtered(write)

    def finished(self) -> None:
        """The answer is complete."""
        self._leave_upstream()
        if self._answer is not None and (held := self._answer.flush()):
            self._client.write(held)
        if self.load is not None and self.load.failures_in_row and self.upstream_status < 500:
            self.load.succeeded(self._proxy.now())
        self._settle("served")
        self._client.exchange_done(self._answer is None or self._answer.keep_alive)

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

    def _endpoint_failed(self, reason: str) -> None:
        assert self.load is not None
        assert self.pool is not None
        self._proxy.attempt_failed(self.pool, self.load, reason)

    # -- time

    def sweep(self, now: float) -> None:
        """Gives up what was silent for too long; called about once a second, which costs requests nothing."""
        upstream = self._upstream
        if upstream is None:
            return  # connecting and waiting to retry have times of their own
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
        self._settle("client_stalled")
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
        self._settle("client_gone")

    # -- ends

    def _refuse(self, refusal: Refusal) -> None:
        self._drop_upstream()
        self.status = refusal.status
        self.error_message = refusal.message
        self._settle(refusal.code)
        if self.request.wants_decision:
            self.request.answer_lines += decision_header.line(self, refusal.code)
        self._client.refuse(refusal, self.request, self.request_id)
        self._client.exchange_done(self.request.keep_alive)

    def _break_off(self, outcome: str, message: str) -> None:
        """The client has part of an answer. Events end with one that says why; of anything else, ending the
        connection is the only honest sign left. An answer of which nothing was passed on is refused."""
        assert self._answer is not None
        self._endpoint_failed(outcome)
        refusal = Refusal.upstream(f"the answer broke off: {message}", code=outcome)
        if not self._answer.has_begun:
            self._answer = None
            self.bytes_out = 0
            self._refuse(refusal)
            return
        self.error_message = refusal.message
        self._settle(outcome)
        last = self._answer.cut_off(lambda: error_event(refusal, self.request.target))
        if last is None:
            self._client.abort()
            return
        self._client.write(last)
        self._client.exchange_done(keep_alive=False)

    def _drop_upstream(self) -> None:
        self._cancel_timer()
        if self._upstream is not None:
            self._upstream.abort()
            self._leave_upstream()
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None

    def _leave_upstream(self) -> None:
        if self._upstream is not None:
            self.bytes_out += self._upstream.passed_bytes
            self._upstream = None

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _settle(self, outcome: str) -> None:
        assert not self.settled, f"settled twice: {self.outcome}, then {outcome}"
        self.settled = True
        self.outcome = outcome
        if self._timer is not None:
            self._cancel_timer()
        if self._answer is not None:
            self.bytes_out -= self._answer.taken_bytes
        if self.load is not None:
            self.load.finish(self.decision.prompt_tokens)
        self._proxy.recorder.settled(self, self._proxy.now())
