"""One request over HTTP: its client, its upstream connection, and the response that it forwards.

Reports events to the request's `Life` and performs the effects that it requests. All decisions are made
there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

import httptools

from headgate.dataplane import decision_header, fallback_headers, large_reader, retry_after
from headgate.dataplane.bodies import LONG_BYTES
from headgate.dataplane.explaining import limits_shown
from headgate.dataplane.providers import GoneError, heads
from headgate.gateway import progress, refusals
from headgate.gateway.connections import ShortageError, why_unreachable
from headgate.gateway.continuation import Continuation
from headgate.gateway.dial import Dial
from headgate.gateway.fast_path import FastPath
from headgate.gateway.outgoing import Outgoing
from headgate.gateway.prefill import PrefillCall
from headgate.gateway.refusals import error_event
from headgate.gateway.response import Response
from headgate.requests import effects, prefill_way, states, way
from headgate.requests.life import Life
from headgate.requests.limits import headers as limit_headers
from headgate.requests.limits import reserving
from headgate.requests.pairs import marks
from headgate.requests.received import ReceivedBody

if TYPE_CHECKING:
    import asyncio

    from headgate.engines.transfer import PrefillResponse
    from headgate.gateway.request import Request
    from headgate.gateway.services import Services
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.quota.waiter import Waiter
    from headgate.requests.bodies import large
    from headgate.requests.client import Header
    from headgate.requests.pool_state import PoolState
    from headgate.requests.refusal import Refusal

_LAST_STATUS: Final = 599
_REQUEST_ID: Final = re.compile(rb"[!-~]{1,128}")
"""Request ids accepted from clients; they appear in logs and responses."""


class Client(Protocol):
    """The client connection of the request."""

    @property
    def is_paused(self) -> bool:
        """Whether writing is paused because the client reads slowly."""
        ...

    def write(self, data: bytes) -> None: ...
    def writer(self) -> Callable[[bytes], None] | None:
        """A write function without checks, valid while the exchange is in progress."""
        ...

    def refuse(self, refusal: Refusal, request: Request, request_id: bytes) -> None: ...
    def abort(self) -> None: ...
    def exchange_done(self, keep_alive: bool, now: float) -> None:
        """The response was written."""


class Exchange:
    """Owned by the client connection until the last effect of its `life`."""

    __slots__ = (
        "_client",
        "_dial",
        "_fast_path",
        "_head",
        "_outgoing",
        "_prefill",
        "_received",
        "_response",
        "_services",
        "_timer",
        "_upstream",
        "life",
        "now",
        "request",
        "request_id",
    )

    def __init__(self, services: Services, client: Client, request: Request) -> None:
        self._services = services
        self._client = client
        self.now = services.now
        self.request = request
        given_id = request.given_id
        is_plain = given_id and _REQUEST_ID.fullmatch(given_id)
        self.request_id = given_id if is_plain else services.identities.request_id()
        self._received = received = ReceivedBody(request.path)
        self.life = Life(services.plane, request, received)
        self._outgoing = Outgoing(self.request_id)
        self._upstream: UpstreamConnection | None = None
        self._dial: Dial | None = None
        """Opens an upstream connection, if none is idle."""
        self._prefill: PrefillCall | None = None
        self._timer: asyncio.TimerHandle | Waiter | large_reader.Reading | None = None
        self._head: tuple[int, list[Header]] = (0, [])
        """Status and headers of the last response head."""
        self._response: Response | Continuation | None = None
        self._fast_path: FastPath | None = None
        """Forwards the body without calls of `forward`."""

    def start(self, now: float) -> None:
        """Start at `now`. The clock is read once per event, and all that follows uses that time."""
        try:
            way.begin(self.life, now)
        except Exception:
            self._broke(now)
        self._perform(now)

    @property
    def bytes_so_far(self) -> int:
        """Bytes of the response body received from the endpoint."""
        passed = self._fast_path.passed_bytes if self._fast_path is not None else 0
        return self._received.size + passed

    @property
    def bytes_to_come(self) -> int:
        """Bytes of the request body that its client has not sent yet."""
        return 0

    # -- effects

    def _perform(self, now: float) -> None:
        """Perform all pending effects. An exception ends the request, not the client connection: many events
        come from timers and tasks, where no caller would handle it."""
        todo = self.life.todo
        try:
            while todo:
                effect = todo.pop(0)
                _DO[type(effect)](self, effect, now)
        except httptools.HttpParserError:
            raise  # the endpoint's fault: the upstream connection handles it
        except Exception:
            self._broke(now)
            self._perform(now)

    def _broke(self, now: float) -> None:
        """Refuse the request because of the exception being handled; re-raise it if the request is over."""
        if self.life.is_over:
            raise
        self._count_passed()
        self._drop(effects.DROP, now)
        way.broke(self.life, now)

    def _read_body(self, effect: effects.ReadBody, now: float) -> None:
        request = self.request
        read = self._services.large_bodies.begin
        self._timer = read(request.headers, request.body, request.path, self._body_read)

    def _body_read(self, body: large.Body | None) -> None:
        self._timer = None
        now = self.now()
        self._report(lambda: way.body_read(self.life, body, now), now)

    def _report(self, event: Callable[[], None], now: float) -> None:
        """Report an event that has no caller to handle its exceptions, so that the client never hangs."""
        try:
            event()
        except Exception:
            self._broke(now)
        self._perform(now)

    def _fall_back(self, effect: effects.FallBack, now: float) -> None:
        way.decided(self.life, now)

    def _fetch_tokens(self, effect: effects.FetchTokens, now: float) -> None:
        sources = self._services.limit_sources
        waiter = sources.wait(effect.limit, effect.input_tokens, effect.output_tokens, self._tokens_fetched)
        if waiter is None:
            way.tokens_out(self.life, now)
        else:
            self._timer = waiter

    def _tokens_fetched(self) -> None:
        self._timer = None
        now = self.now()
        self._report(lambda: way.tokens_fetched(self.life, now), now)

    def _hold(self, effect: effects.Hold, now: float) -> None:
        pool = self.life.pool
        assert pool is not None
        assert pool.queue is not None
        pool.queue.hold(self, now)

    def admitted(self, pool: PoolState, now: float) -> None:
        """The request may leave the queue."""
        way.admitted(self.life, pool, now)
        self._perform(now)

    def turn_away(self, refusal: Refusal, now: float) -> None:
        """The request was dropped from the queue, or evicted."""
        way.turned_away(self.life, refusal, now)
        self._perform(now)

    def _start_timer(self, effect: effects.StartTimer, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._services.loop.call_later(effect.seconds, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        now = self.now()
        self._report(lambda: way.timer(self.life, now, has_begun=self._has_begun), now)

    @property
    def _has_begun(self) -> bool:
        """Whether part of a response head has arrived."""
        return self._upstream is not None and self._upstream.has_begun

    def _stop_timer(self, effect: effects.StopTimer, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _drop(self, effect: effects.Effect, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._upstream is not None:
            self._upstream.abort()
            self._upstream = None
        if self._dial is not None:
            self._dial.cancel()
            self._dial = None

    # -- the upstream connection

    def _ask(self, effect: effects.Ask, now: float) -> None:
        services, pool, load = self._services, effect.pool, effect.load
        if self.life.fallen is not None and pool.pool.is_outside:
            try:
                self._outgoing.prepare_outside(services, self.request, pool.pool, effect.body)
            except GoneError as error:
                way.connect_failed(self.life, str(error), now)
                return
        else:
            self._outgoing.prepare(
                services, self.request, effect.body, load.endpoint.prefix, self.life.account.attempts
            )
        connections = pool.connections.get(load) or services.connections_to(pool, load)
        connection = None if effect.is_afresh else connections.take()
        if connection is not None:
            self._send_on(connection, now)
        else:
            self._dial = Dial(services, self, pool, load)

    def _send_on(self, connection: UpstreamConnection, now: float) -> None:
        self._upstream = connection
        way.sent(self.life, now)
        connection.send(self, self._outgoing.payload, self._outgoing.long_body)
        if self._client.is_paused:
            connection.pause_reading()

    def connected(self, connection: UpstreamConnection, now: float) -> None:
        self._dial = None
        self._report(lambda: self._send_on(connection, now), now)

    def connect_failed(self, error: Exception, now: float) -> None:
        self._dial = None
        if isinstance(error, ShortageError):
            self._report(lambda: way.connections_exhausted(self.life, str(error), now), now)
        else:
            self._report(lambda: way.connect_failed(self.life, why_unreachable(error), now), now)

    def connects_slowly(self, now: float) -> None:
        self._report(lambda: way.connects_slowly(self.life, now), now)

    def _overtake(self, effect: effects.Overtake, now: float) -> None:
        if self._dial is not None:
            self._dial.leave()
            self._dial = None

    # -- the prefill

    def _begin_prefill(self, effect: effects.Prefill, now: float) -> None:
        self._outgoing.name_parent(self._services, self.request, effect.attempt.number, is_prefill=True)
        payload = self.request.parts(effect.body, self.request_id, effect.attempt.load.endpoint.prefix)
        self._prefill = PrefillCall(self._services, self, effect, payload)
        self._prefill.start()

    def _drop_prefill(self, effect: effects.DropPrefill, now: float) -> None:
        prefill, self._prefill = self._prefill, None
        if prefill is not None:
            prefill.drop()

    def _leave_prefill(self, effect: effects.LeavePrefill, now: float) -> None:
        prefill, self._prefill = self._prefill, None
        if prefill is not None:
            prefill.leave()

    def prefill_sent(self, now: float) -> None:
        prefill_way.prefill_sent(self.life, now)

    def prefill_head(self, status: int, rest_s: float | None, now: float) -> None:
        self._count_passed()
        self._report(lambda: prefill_way.prefill_head(self.life, status, rest_s, now), now)

    def prefilled(self, response: PrefillResponse, now: float) -> None:
        self._prefill = None
        self._report(lambda: prefill_way.prefilled(self.life, response, now), now)

    def prefill_refused(self, status: int, headers: list[Header], body: bytes, now: float) -> None:
        self._prefill = None
        self._count_passed()
        self._report(lambda: prefill_way.prefill_refused(self.life, status, headers, body, now), now)

    def prefill_failed(self, reason: str, message: str, now: float) -> None:
        self._prefill = None
        self._count_passed()
        self._report(lambda: prefill_way.prefill_failed(self.life, reason, message, now), now)

    def prefill_impossible(self, message: str, now: float) -> None:
        self._prefill = None
        self._count_passed()
        self._report(lambda: prefill_way.prefill_impossible(self.life, message, now), now)

    # -- the response, as the upstream connection reports it

    def response_head(
        self, connection: UpstreamConnection, status: int, headers: list[Header], now: float
    ) -> None:
        """Raises HttpParserError for an invalid status (RFC 9110, 15), and like `Response`."""
        if self.life.fallen is not None:
            headers = self._kept(headers)
        self._take_head(status, headers, now)

    def _kept(self, headers: list[Header]) -> list[Header]:
        """The headers of a response without those of an external provider that the client must not see."""
        pool = self.life.pool
        return heads.kept(headers) if pool is not None and pool.pool.is_outside else headers

    def _take_head(self, status: int, headers: list[Header], now: float) -> None:
        if status > _LAST_STATUS:
            raise httptools.HttpParserError(f"{status} is not an HTTP status")
        self._head = status, headers
        rest_s = retry_after.seconds(headers) if status in retry_after.STATUSES else None
        way.head(self.life, status, rest_s, now)
        self._perform(now)

    def _respond(self, effect: effects.Respond, now: float) -> None:
        life, request, upstream, received = self.life, self.request, self._upstream, self._received
        assert upstream is not None
        status, headers = self._head
        self._head = 0, []
        if effect.retry_after_s is not None:
            headers = retry_after.replaced(headers, effect.retry_after_s)
        response = self._response_of(status, headers, now)
        if response.is_encoded and status < 400:
            # The endpoint compresses although the request forbids it: read token counts from a copy.
            is_chunked = isinstance(response, Response) and response.is_chunked
            inflated = self._services.inflating.tail(received.tail, headers, is_chunked=is_chunked)
            received.tail = inflated
        received.is_encoded = response.is_encoded
        if (trace := request.trace) is not None and trace.is_kept and status >= 400:
            response.add(trace.response_line())
        if life.fallen is not None and life.fallen.hops:
            response.add(fallback_headers.lines(life))
        if request.wants_decision:
            response.add(decision_header.line(self, self._limits_told(now)))
        pool, choice = life.pool, life.choice
        if pool is not None and pool.policy.marks_responses and choice is not None:
            for name, value in marks(life, pool, choice):
                response.add(b"%b: %b\r\n" % (name, value))
        if response.ends_with_connection:
            upstream.ends_with_connection()
        self._response = response
        self._outgoing.drop()
        if life.pairing is None and (request.held_bytes <= LONG_BYTES or not upstream.is_sending):
            self._services.bodies.release(request)

    def _response_of(self, status: int, headers: list[Header], now: float) -> Response | Continuation:
        life, request, decision = self.life, self.request, self.life.decision
        may_keep_alive = request.keep_alive and not self._services.shutdown.is_leaving
        if life.wait is not None and life.wait.has_head:
            return Continuation(
                request.target,
                status,
                headers,
                may_keep_alive,
                takes_usage=decision.usage_unasked,
                name=decision.client_name,
            )
        limit = b""
        if (held := life.reservation) is not None:
            limit = limit_headers.lines(held.limit, held.input_tokens, held.output_tokens, now)
        return Response(
            request,
            self.request_id,
            status,
            headers,
            may_keep_alive,
            decision.stream,
            decision.usage_unasked,
            decision.client_name,
            limit,
        )

    def forward(self, data: bytes, now: float) -> None:
        """Forward body bytes; the first call also sends the head."""
        response, life, received = self._response, self.life, self._received
        assert response is not None
        if response.unchunker is not None:
            data, _ = response.unchunker.feed(data)
        if data:
            way.heard(life, now)  # not for a head alone: engines whose workers hang still send one
            if not life.account.first_byte_at:
                way.first_byte(life, now)
            received.tail.add(data)
            received.size += len(data)
        else:
            life.account.heard_at = now
            if life.pairing is not None and not response.has_begun:
                return  # a head alone can still be withdrawn
        passed = response.pass_on(data)
        received.has_passed = response.has_begun
        if passed:
            if life.pairing is not None:
                life.pairing.forget()
                self._services.bodies.release(self.request)
                passed = life.pairing.counted(passed)
            self._client.write(passed)

    def fast_path(self, data: bytes) -> FastPath | None:
        """The fast path for the bytes after `data`; None if they must pass through `forward`."""
        response, write, life = self._response, self._client.writer(), self.life
        if response is None or write is None or not life.account.first_byte_at:
            return None
        if not response.is_straight or response.is_encoded:
            return None  # reading the end of a compressed response takes all its bytes
        if life.pairing is not None:
            write = _counting(life.pairing.counted, write)
        self._fast_path = FastPath(write, response.change, self._received.tail, data)
        return self._fast_path

    def _count_passed(self) -> bool:
        """Count the bytes of the fast path; returns whether there were any since the last call."""
        response, received, path = self._response, self._received, self._fast_path
        if response is not None and not response.is_plain:
            received.taken_bytes = response.taken_bytes
        if path is None or not path.passed_bytes:
            return False
        received.size += path.passed_bytes
        path.passed_bytes = 0
        return True

    def finished(self, now: float) -> None:
        """The response is complete."""
        self._count_passed()
        self._upstream = None
        response, life, received = self._response, self.life, self._received
        assert response is not None
        if life.pairing is not None and not response.has_begun:
            self._client.write(response.pass_on(b""))
        if not response.is_plain:
            held = response.flush()
            received.taken_bytes = response.taken_bytes
            if held:
                self._client.write(held if life.pairing is None else life.pairing.counted(held))
        try:
            way.finished(life, now)
        except Exception:
            self._broke(now)
        self._perform(now)

    def upstream_lost(self, connection: UpstreamConnection, message: str) -> None:
        """The connection ended before the response did."""
        self._count_passed()
        self._upstream = None
        now, has_begun = self.now(), connection.has_begun
        is_crossed = connection.reused and not has_begun
        lost, life = way.endpoint_lost, self.life
        self._report(lambda: lost(life, message, now, is_crossed=is_crossed, has_begun=has_begun), now)

    def upstream_broke(self, message: str) -> None:
        """The response is not valid HTTP."""
        self._count_passed()
        self._upstream = None
        now = self.now()
        is_head = self._response is None
        self._report(lambda: way.endpoint_broke(self.life, message, now, is_head=is_head), now)

    def _take_back(self, effect: effects.TakeBack, now: float) -> None:
        self._response = None

    # -- what the client connection reports

    def pause(self) -> None:
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume(self) -> None:
        if self._upstream is not None:
            self._upstream.resume_reading()

    def client_gone(self) -> None:
        """The client has left: stop the endpoint immediately."""
        self._count_passed()
        now = self.now()
        self._report(lambda: way.client_gone(self.life, now), now)

    def sweep(self, now: float) -> None:
        """Called about once a second, off the path of requests."""
        life, upstream = self.life, self._upstream
        if self._count_passed():
            way.heard(life, now)
        is_paused = self._client.is_paused
        if life.state == states.QUEUED and not is_paused:
            told = progress.tell(self, now)
            if told:
                self._client.write(told)
        has_begun = upstream is not None and upstream.has_begun
        way.sweep(life, now, is_stalled=is_paused, has_begun=has_begun)
        self._perform(now)

    # -- ends

    def _finish(self, effect: effects.Finish, now: float) -> None:
        response = self._response
        self._end(now)
        self._client.exchange_done(response is None or response.keep_alive, now)

    def _refuse(self, effect: effects.Refuse, now: float) -> None:
        life, request, refusal = self.life, self.request, effect.refusal
        if life.wait is not None and life.wait.has_head:
            # The client already has the head of a stream: end the stream with an error event.
            last = progress.refused(life.wait, refusal, request.target)
            self._end(now)
            self._client.write(last)
        else:
            life.account.refusal_bytes = len(refusals.body(refusal, request.target))
            self._end(now)
            if (trace := request.trace) is not None and trace.is_kept:
                request.response_lines += trace.response_line()
            if life.fallen is not None and life.fallen.hops:
                request.response_lines += fallback_headers.lines(life)
            if request.wants_decision:
                request.response_lines += decision_header.line(self, self._limits_told(now), refusal.code)
            self._client.refuse(refusal, request, self.request_id)
        self._client.exchange_done(request.keep_alive, now)

    def _cut_off(self, effect: effects.CutOff, now: float) -> None:
        response, refusal = self._response, effect.refusal
        assert response is not None
        self._end(now)
        last = response.cut_off(lambda: error_event(refusal, self.request.target))
        if last is None:
            self._client.abort()
            return
        self._client.write(last)
        self._client.exchange_done(False, now)

    def _pass_whole(self, effect: effects.PassWhole, now: float) -> None:
        kept = [each for each in effect.headers if each[0] == b"content-type"]
        framed = [*kept, (b"content-length", b"%d" % len(effect.body))]
        response = self._response_of(effect.status, framed, now)
        whole = response.pass_on(effect.body) + response.flush()
        self._end(now)
        self._client.write(whole)
        self._client.exchange_done(response.keep_alive, now)

    def _hang_up(self, effect: effects.HangUp, now: float) -> None:
        self._end(now)
        self._client.abort()

    def _end(self, now: float) -> None:
        """Release all resources and record the request."""
        self._drop(effects.DROP, now)
        if self._prefill is not None:
            self._prefill.drop()
            self._prefill = None
        self._outgoing.drop()
        self._services.recorder.settled(self, now)
        if self.request.held_bytes:
            self._services.bodies.release(self.request)

    def _limits_told(self, now: float) -> list[tuple[str, str]]:
        """What is left of the route's limit, for the `x-headgate-decision` header."""
        return limits_shown.pairs(reserving.limit_of(self.life), now)


def _counting(count: Callable[[bytes], bytes], write: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """A write function that inserts the prefill's count of cached tokens."""

    def write_counted(data: bytes) -> None:
        write(count(data))

    return write_counted


_DO: Final[dict[type[effects.Effect], Callable[[Exchange, Any, float], None]]] = {
    effects.ReadBody: Exchange._read_body,
    effects.FallBack: Exchange._fall_back,
    effects.FetchTokens: Exchange._fetch_tokens,
    effects.Hold: Exchange._hold,
    effects.Ask: Exchange._ask,
    effects.StartTimer: Exchange._start_timer,
    effects.StopTimer: Exchange._stop_timer,
    effects.Drop: Exchange._drop,
    effects.Overtake: Exchange._overtake,
    effects.Prefill: Exchange._begin_prefill,
    effects.DropPrefill: Exchange._drop_prefill,
    effects.LeavePrefill: Exchange._leave_prefill,
    effects.Respond: Exchange._respond,
    effects.TakeBack: Exchange._take_back,
    effects.Finish: Exchange._finish,
    effects.Refuse: Exchange._refuse,
    effects.CutOff: Exchange._cut_off,
    effects.PassWhole: Exchange._pass_whole,
    effects.HangUp: Exchange._hang_up,
}
"""How each effect is performed over HTTP."""
