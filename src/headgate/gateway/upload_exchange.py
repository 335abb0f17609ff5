"""A request whose body, a long multipart form, is sent to the endpoint as it comes from the client.

In its own file, as a subclass of a compiled class is compiled too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from headgate.gateway.exchange import Client, Exchange
from headgate.gateway.response import Response
from headgate.requests import settlement, states, upload_way, way
from headgate.requests.bodies.fields import invalid_json
from headgate.requests.bodies.large import LARGE_BYTES, Body
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.gateway.continuation import Continuation
    from headgate.gateway.request import Request
    from headgate.gateway.services import Services
    from headgate.gateway.upstream import UpstreamConnection
    from headgate.requests.bodies.form_stream import FormStream
    from headgate.requests.client import Header

HELD_BYTES: Final = LARGE_BYTES
"""Of the body, while the endpoint reads more slowly than the client sends. While no more has come, all of it
is kept, so that it can be sent to another endpoint. What is read at once may be held besides."""
_NO_JSON: Final = invalid_json("it is a multipart form")


class UploadClient(Client, Protocol):
    """The client connection, which goes on to read the body."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class Sending:
    """The body on its way to one endpoint, as the connection to it sees that."""

    __slots__ = ("_exchange",)

    def __init__(self, exchange: UploadExchange) -> None:
        self._exchange: UploadExchange | None = exchange

    @property
    def is_done(self) -> bool:
        return self._exchange is None or self._exchange.is_sent

    def pause(self) -> None:
        if self._exchange is not None:
            self._exchange.block()

    def resume(self) -> None:
        if self._exchange is not None:
            self._exchange.unblock()

    def drop(self) -> None:
        """The connection has ended."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.dropped(self)


class UploadExchange(Exchange):
    """Decided, queued, retried and settled as any exchange, while the rest of its body arrives."""

    __slots__ = (
        "_body",
        "_form",
        "_is_blocked",
        "_left",
        "_sending",
        "_sent",
        "_swept_at",
        "_waited_s",
        "_write",
        "client",
        "is_full",
    )

    def __init__(self, services: Services, client: UploadClient, request: Request, form: FormStream) -> None:
        super().__init__(services, client, request)
        self.client = client
        self._form = form
        self._body = bytearray()
        """The bytes behind the beginning that were not sent yet, and those before that are kept."""
        self._sent = 0
        """The number of bytes in it that the present endpoint got."""
        self._left = request.more_bytes
        """Bytes that the client has still to send."""
        self._sending: Sending | None = None
        self._write: Callable[[bytes], None] | None = None
        """Sends to the endpoint; None while no endpoint has the head."""
        self._is_blocked = False
        """Whether the endpoint reads too slowly now."""
        self.is_full = False
        """Whether the client has to wait."""
        self._swept_at = request.arrived_at
        self._waited_s = 0.0
        """How long nothing but the client was waited for, at most."""

    def start(self, now: float) -> None:
        """Start at `now`."""
        request, form = self.request, self._form.form
        body = Body(bytes(request.body), _NO_JSON, form, more_bytes=request.more_bytes)
        self._report(lambda: upload_way.upload_begun(self.life, body, now), now)

    @property
    def bytes_to_come(self) -> int:
        return self._left

    # -- what the client sends

    def receive(self, data: bytes) -> None:
        """The next bytes of the body."""
        life = self.life
        if life.is_over:
            return
        life.account.bytes_in += len(data)
        refusal = self._form.feed(data)
        left = self._left - len(data)
        if refusal is None and not left:
            refusal = self._form.finish()
        if refusal is not None:
            self._refuse_rest(refusal, self.now())
            return
        self._left = left
        if self._form.is_stream:
            life.decision.stream = True
        if self._write is not None and not self._body and not self._is_blocked and not life.may_repeat:
            self._write(data)  # most of a form goes this way
        else:
            self._body += data
            self._flush()
            memory = self._services.bodies
            if memory.held > memory.limit_of_long and memory.is_exceeded_by(self._held_bytes):
                self._refuse_rest(memory.refusal(), self.now())
                return
        if not left:
            self._all_came(self.now())

    def _refuse_rest(self, refusal: Refusal, now: float) -> None:
        self._report(lambda: upload_way.upload_refused(self.life, refusal, now), now)

    def _all_came(self, now: float) -> None:
        """The endpoint can begin: its time is counted from now on."""
        life, attempt = self.life, self.life.attempt
        if life.state != states.SENT or attempt is None:
            return
        life.account.sent_at = life.account.heard_at = now
        self._time_anew(0.0)

    def _time_anew(self, passed_s: float) -> None:
        """The pool's timeout for the response begins again; so much of it has passed."""
        attempt, pool, timer = self.life.attempt, self.life.pool, self._timer
        if attempt is None or not attempt.has_timer or pool is None or pool.pool.timeout_s is None:
            return
        if timer is not None:
            timer.cancel()
        left_s = max(pool.pool.timeout_s - passed_s, 0.0)
        self._timer = self._services.loop.call_later(left_s, self._timer_fired)

    # -- what the endpoint gets

    def _send_on(self, connection: UpstreamConnection, now: float) -> None:
        self._upstream = connection
        way.sent(self.life, now)
        self._sent, self._is_blocked = 0, False
        outgoing = self._outgoing
        long_body = outgoing.long_body
        payload = outgoing.payload + (long_body if isinstance(long_body, bytes) else bytes(long_body))
        self._sending = sending = Sending(self)
        self._write = connection.send_streamed(self, payload, sending)
        if self._client.is_paused:
            connection.pause_reading()
        self._flush()

    def _flush(self) -> None:
        """Send what came, as far as the endpoint reads, and let go of it once it is too much to keep."""
        body, write, life = self._body, self._write, self.life
        if write is not None and not self._is_blocked and self._sent < len(body):
            sent = bytes(body[self._sent :])
            self._sent = len(body)
            write(sent)  # this may block it
        if len(body) > HELD_BYTES and self._sent:
            if life.may_repeat:
                life.may_repeat = False
                settlement.drop_body(life)
                self._outgoing.drop()
            del body[: self._sent]
            self._sent = 0
        if not life.may_repeat and self._sent == len(body):
            body.clear()
            self._sent = 0
        self._services.bodies.recount(self.request, self._held_bytes)
        is_full = len(body) - self._sent > HELD_BYTES
        if is_full and not self.is_full:
            self.is_full = True
            self.client.pause_reading()
        elif self.is_full and not is_full:
            self.is_full = False
            self.client.resume_reading()

    @property
    def _held_bytes(self) -> int:
        begun = len(self.life.decision.body) + len(self.life.request.body)
        return begun + len(self._body)

    @property
    def is_sent(self) -> bool:
        """Whether the endpoint's connection got everything."""
        return not self._left and self._sent == len(self._body)

    def block(self) -> None:
        """The endpoint reads too slowly."""
        self._is_blocked = True

    def unblock(self) -> None:
        """The endpoint reads on."""
        self._is_blocked = False
        if self.life.state == states.SENT:
            self.life.account.heard_at = self.now()
        self._flush()

    def dropped(self, sending: Sending) -> None:
        """The connection has ended."""
        if sending is self._sending:
            self._let_go()

    def _let_go(self) -> None:
        """The endpoint gets nothing more."""
        sending, self._sending, self._write = self._sending, None, None
        if self.life.may_repeat:
            self._sent = 0
        if sending is not None:
            sending.drop()
        self._is_blocked = False

    # -- the response

    def _response_of(self, status: int, headers: list[Header], now: float) -> Response | Continuation:
        if self._left:
            self.request.keep_alive = False
        return super()._response_of(status, headers, now)

    def client_gone(self) -> None:
        """The client has left: before it has sent everything, that is no fault of the endpoint."""
        if self._left:
            self.life.account.sent_at = self.now()
        super().client_gone()

    def _timer_fired(self) -> None:
        life = self.life
        if not self._left or life.state != states.SENT:
            super()._timer_fired()
            return
        self._timer = None
        # While the endpoint reads, it is the client that is waited for.
        stopped_s = self.now() - life.account.heard_at if self._is_blocked else 0.0
        if life.pool is not None and stopped_s >= (life.pool.pool.timeout_s or 0.0) > 0.0:
            super()._timer_fired()
        else:
            self._time_anew(stopped_s)

    def sweep(self, now: float) -> None:
        """Called about once a second."""
        passed_s, self._swept_at = now - self._swept_at, now
        life, settings = self.life, self._services.settings.clients
        if self._left and not self.is_full:
            if not self._is_blocked:
                life.account.heard_at = now  # the endpoint waits, too
            self._waited_s += passed_s
            came = life.account.bytes_in
            allowed_s = settings.receive_timeout_s + came / settings.min_body_bytes_per_s
            if self._waited_s > allowed_s:
                self._refuse_rest(too_slow(self._waited_s), now)
                return
        super().sweep(now)

    def _end(self, now: float) -> None:
        if self._left:
            self.request.keep_alive = False
        self._let_go()
        self._body.clear()
        self._sent = 0
        self.is_full = False
        super()._end(now)


def too_slow(age_s: float) -> Refusal:
    """For a request of which too little has come in this time."""
    return Refusal.bad_request(
        f"the request was not complete after {age_s:.0f} s: send it faster, or raise "
        f"clients.receive_timeout_s of the gateway, and for long bodies lower clients.min_body_bytes_per_s",
        code="request_timeout",
        status=408,
    )
