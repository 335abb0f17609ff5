"""Tells proxies the model of a request before they choose its route: body-based routing.

A field of the body becomes a header, by which the routes of the proxy select a pool. The body stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from headgate import extproc
from headgate.picker import errors, picking, replies, request_body
from headgate.picker.request import ProxiedRequest
from headgate.protobuf_wire import WireError
from headgate.requests.bodies import large
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    import asyncio

    from headgate.dataplane.bodies import BodyMemory
    from headgate.picker.base_models import BaseModels
    from headgate.picker.host import Call
    from headgate.telemetry.metrics import Counter

BASE_MODEL_HEADER: Final = b"x-gateway-base-model-name"
INVALID_ARGUMENT, FAILED_PRECONDITION = 3, 9
"""Status codes of gRPC."""
_MAX_VALUE_BYTES: Final = 1024
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode


class RouterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is read, and where it goes."""

    field: str = "model"
    header: str = "X-Gateway-Model-Name"
    body_mode: str = "auto"
    """How proxies send bodies that do not say so."""
    max_body_bytes: int = 32 << 20


class RouterHost(Protocol):
    """The process."""

    settings: RouterSettings
    bodies: BodyMemory
    base_models: BaseModels
    results: Counter
    """Requests by what was found."""
    loop: asyncio.AbstractEventLoop

    @property
    def now(self) -> Callable[[], float]: ...


class RouterStream:
    """One request: messages of the proxy in, replies out. The response is not needed, and passes as it is."""

    __slots__ = ("_body", "_call", "_host", "_request")

    def __init__(self, host: RouterHost, call: Call) -> None:
        self._host = host
        self._call: Call | None = call
        """None once the stream has ended."""
        self._request: ProxiedRequest | None = None
        self._body: request_body.RequestBody | None = None

    # -- what the call reports

    def message(self, data: bytes) -> None:
        """A message of the proxy."""
        if self._call is None:
            return
        try:
            self._take(extproc.decode_request(data))
        except WireError as error:
            self._end(INVALID_ARGUMENT, f"this is not a ProcessingRequest: {error}")

    def half_closed(self) -> None:
        """The proxy sends no more."""
        self._end()

    def cancelled(self) -> None:
        """The proxy has ended the stream, or lost the connection."""
        self._call = None
        self._end()

    def _end(self, status: int = 0, message: str = "") -> None:
        call, self._call = self._call, None
        if call is not None:
            call.finish(status, message)
        if self._request is not None:
            self._host.bodies.release(self._request)

    # -- messages

    def _take(self, found: extproc.ProcessingRequest) -> None:
        message = found.message
        if found.is_response:
            self._pass_response(message)
        elif isinstance(message, extproc.HttpHeaders):
            if self._request is not None:
                raise WireError("the headers of the request came twice")
            self._headers(found, message)
        elif isinstance(message, extproc.HttpBody):
            self._part(message)
        else:
            self._trailers()

    def _headers(self, found: extproc.ProcessingRequest, message: extproc.HttpHeaders) -> None:
        self._request = ProxiedRequest(message.headers, self._host.now())
        mode, _ = picking.body_modes(found.protocol, self._host.settings.body_mode)
        if problem := request_body.mode_problem(mode):
            self._end(FAILED_PRECONDITION, problem)
            return
        if message.end_of_stream or mode == extproc.NONE:
            self._send(replies.headers(None, is_response=False))
            return
        self._body = request_body.RequestBody(mode)
        if self._body.is_buffered:
            self._send(replies.headers(None, is_response=False))

    def _part(self, message: extproc.HttpBody) -> None:
        body, request, host = self._body, self._request, self._host
        if body is None or request is None or body.is_complete:
            return  # some proxies send the last part twice
        refusal = body.add(message.body, request, host.bodies, host.settings.max_body_bytes)
        if refusal is not None:
            self._refuse(refusal, request)
        elif message.end_of_stream or body.is_buffered:
            body.is_complete = True
            self._route(body, request)

    def _trailers(self) -> None:
        """Trailers end the body, if it was not complete."""
        body, request = self._body, self._request
        if body is None or request is None or body.is_complete:
            self._send(replies.trailers(is_response=False))
            return
        body.is_complete = body.has_trailers = True
        self._route(body, request)

    def _route(self, body: request_body.RequestBody, request: ProxiedRequest) -> None:
        """The body is complete. A long one is read in a thread: 32 MB take a fifth of a second."""
        content, host = body.whole(), self._host
        if len(content) <= large.LARGE_BYTES:
            self._send_on(content, read_field(content, host.settings.field), body, request)
            return
        reading = host.loop.run_in_executor(None, read_field, content, host.settings.field)
        reading.add_done_callback(lambda done: self._was_read(content, done, body, request))

    def _was_read(
        self,
        content: bytes,
        done: asyncio.Future[str | Refusal | None],
        body: request_body.RequestBody,
        request: ProxiedRequest,
    ) -> None:
        if self._call is not None and not done.cancelled():
            self._send_on(content, done.result(), body, request)

    def _send_on(
        self,
        content: bytes,
        found: str | Refusal | None,
        body: request_body.RequestBody,
        request: ProxiedRequest,
    ) -> None:
        """Add the headers, and send the body on."""
        if isinstance(found, Refusal):
            self._host.results.labels("invalid_body").value += 1
            self._refuse(found, request)
            return
        result = "success" if found else "field_missing" if found is None else "field_empty"
        self._host.results.labels(result).value += 1
        mutation = extproc.Mutation()
        if found:
            header = self._host.settings.header.lower().encode()
            mutation.set_headers.append(extproc.SetHeader(header, found.encode()))
            if base := self._host.base_models.of(found):
                mutation.set_headers.append(extproc.SetHeader(BASE_MODEL_HEADER, base.encode()))
        if body.is_buffered:
            self._send(replies.routed_buffered(mutation))
        else:
            self._send(replies.picked_without_body(mutation, b""))
            for part in replies.streamed(content, is_response=False, is_end=not body.has_trailers):
                self._send(part)
        if body.has_trailers:
            self._send(replies.trailers(is_response=False))
        self._host.bodies.release(request)

    def _pass_response(self, message: extproc.HttpHeaders | extproc.HttpBody | extproc.HttpTrailers) -> None:
        """The response passes as it is, if the proxy sends it at all."""
        if isinstance(message, extproc.HttpHeaders):
            self._send(replies.headers(None, is_response=True))
        elif isinstance(message, extproc.HttpTrailers):
            self._send(replies.trailers(is_response=True))
        elif self._body is not None and self._body.is_buffered:
            self._send(replies.changed(None))
        else:
            for part in replies.streamed(message.body, is_response=True, is_end=message.end_of_stream):
                self._send(part)

    def _refuse(self, refusal: Refusal, request: ProxiedRequest) -> None:
        self._send(replies.immediate(errors.response(refusal, request.target, is_text=True)))
        self._end()

    def _send(self, message: bytes) -> None:
        if self._call is not None:
            self._call.send(message)


def read_field(body: bytes, name: str) -> str | Refusal | None:
    """The text in a member of a JSON body; None without one. A refusal if the body is not a JSON object."""
    try:
        found = _decode(body).get(name)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Refusal.bad_request(f"the request body is not valid JSON: {error}", code="invalid_json")
    if found is None:
        return None
    try:
        text = _decode_text(found)
    except msgspec.DecodeError:
        return None
    value = text.strip()
    is_header = value.isprintable() and value.isascii() and len(value) <= _MAX_VALUE_BYTES
    return value if is_header else ""
