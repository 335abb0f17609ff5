"""The messages between the gateway and an endpoint picker about one request, without I/O.

The picker gets the head and the body of the request, and names endpoints in the order in which they may be
tried; it may change headers and body. When an endpoint has responded, the picker gets the head of the
response with the endpoint, and may change headers again. It does not get the body of the response.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from headgate import extproc
from headgate.protobuf_wire import WireError
from headgate.requests.client import Header

DESTINATION: Final = b"x-gateway-destination-endpoint"
SERVED: Final = "x-gateway-destination-endpoint-served"
MAX_ENDPOINTS: Final = 16
MAX_CHANGED_BYTES: Final = 512 << 10
"""Of the headers that its messages about one request set."""
MAX_HEADERS: Final = 128
"""Headers that a picker may set."""
_NAMESPACE: Final = "envoy.lb"
_PIECE_BYTES: Final = 62_000
"""Of the body in one message, as pickers send it."""
_MODES: Final = extproc.Protocol(extproc.FULL_DUPLEX_STREAMED, extproc.NONE)
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding", b"connection", b"host", b"upgrade"})
"""Headers that a picker cannot change: they follow from the request and its body."""


class PickerError(Exception):
    """The picker did not answer as the protocol says."""


class Picked(msgspec.Struct, frozen=True):
    """The answer of a picker."""

    addresses: tuple[str, ...]
    """Endpoints in the order in which they may be tried, as host:port."""
    change: extproc.Mutation
    """Of the request's headers."""
    body: bytes | None
    """The body instead of the client's; None if it is the same."""


class Refused(msgspec.Struct, frozen=True):
    """A response of the picker itself."""

    status: int
    headers: list[Header]
    body: bytes


class Dialogue:
    """One request. `heard` takes the picker's messages until it returns an answer."""

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self._has_body = False
        self._headers: extproc.HeadersResponse | None = None
        self._pieces: list[bytes] = []
        self._size = self._changed = self._changed_bytes = 0
        self._is_replaced = self._is_complete = False

    def begin(
        self, method: bytes, target: bytes, host: bytes, scheme: bytes, headers: list[Header], body: bytes
    ) -> Iterable[bytes]:
        """The messages about a request."""
        self._has_body = bool(body)
        pseudo = [(b":method", method), (b":path", target), (b":authority", host), (b":scheme", scheme)]
        head = extproc.HttpHeaders([*pseudo, *headers], end_of_stream=not body)
        yield extproc.encode_request(extproc.ProcessingRequest(head, protocol=_MODES))
        for at in range(0, len(body), _PIECE_BYTES):
            piece = body[at : at + _PIECE_BYTES]
            part = extproc.HttpBody(piece, end_of_stream=at + len(piece) == len(body))
            yield extproc.encode_request(extproc.ProcessingRequest(part))

    def heard(self, data: bytes) -> Picked | Refused | None:
        """The answer, once it is complete. Raises PickerError."""
        reply = _decoded(data).reply
        match reply:
            case extproc.ImmediateResponse():
                return _refused(reply)
            case extproc.HeadersResponse():
                self._headers = reply
                if reply.body is not None:
                    self._replace(reply.body)
            case extproc.BodyResponse():
                self._take_body(reply)
        return self._answer()

    def _take_body(self, reply: extproc.BodyResponse) -> None:
        if reply.streamed is not None:
            self._add(reply.streamed.body)
            self._is_replaced = True
            self._is_complete = self._is_complete or reply.streamed.end_of_stream
        elif reply.body is not None:
            self._replace(reply.body)
        else:
            self._is_complete = True
        if reply.mutation is not None:
            # In buffered modes, the destination comes with the body.
            known = self._headers.mutation if self._headers is not None else None
            before = known or extproc.Mutation()
            self._changed += len(reply.mutation.set_headers) + len(reply.mutation.remove_headers)
            self._changed_bytes += sum(
                len(each.name) + len(each.value) for each in reply.mutation.set_headers
            )
            if self._changed > extproc.MAX_HEADERS or self._changed_bytes > MAX_CHANGED_BYTES:
                raise PickerError("its messages together change too many headers")
            both = extproc.Mutation(
                [*before.set_headers, *reply.mutation.set_headers],
                [*before.remove_headers, *reply.mutation.remove_headers],
            )
            self._headers = extproc.HeadersResponse(mutation=both)

    def _replace(self, body: bytes) -> None:
        self._pieces, self._size = [], 0
        self._add(body)
        self._is_replaced = self._is_complete = True

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max_body_bytes:
            raise PickerError(f"its body has more than {self._max_body_bytes} bytes")
        self._pieces.append(piece)

    def _answer(self) -> Picked | None:
        if self._headers is None or (self._has_body and not self._is_complete):
            return None
        change = self._headers.mutation or extproc.Mutation()
        named = [each.value for each in change.set_headers if each.name == DESTINATION]
        if not named:
            raise PickerError(f"it set no header {DESTINATION.decode()}")
        texts = named[-1].decode("latin-1").split(",")
        addresses = tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
        body = b"".join(self._pieces) if self._is_replaced else None
        return Picked(addresses[:MAX_ENDPOINTS], change, body)


def response_message(status: int, headers: list[Header], served: str) -> bytes:
    """The message about the head of a response from the endpoint `served`."""
    head = extproc.HttpHeaders([(b":status", b"%d" % status), *headers])
    metadata = extproc.encode_metadata({_NAMESPACE: {SERVED: served}})
    return extproc.encode_request(extproc.ProcessingRequest(head, is_response=True, metadata=metadata))


def response_change(data: bytes) -> extproc.Mutation | None:
    """What a picker changes about the headers of a response; None if the message is about something else.
    Raises PickerError."""
    response = _decoded(data)
    if not response.is_response or not isinstance(response.reply, extproc.HeadersResponse):
        return None
    return response.reply.mutation or extproc.Mutation()


def changed(headers: list[Header], change: extproc.Mutation) -> list[Header]:
    """Headers after a change. Pseudo headers, and those that frame messages, stay as they are."""
    removed = {name.lower() for name in change.remove_headers} - _FRAMING
    kept = [header for header in headers if header[0] not in removed] if removed else list(headers)
    for each in change.set_headers[:MAX_HEADERS]:
        name = each.name.lower()
        if not name or name.startswith(b":") or name in _FRAMING or not _is_plain(name, each.value):
            continue
        if each.action != extproc.APPEND:
            kept = [header for header in kept if header[0] != name]
        kept.append((name, each.value))
    return kept


def _is_plain(name: bytes, value: bytes) -> bool:
    return not any(byte in name for byte in b" :\r\n\0") and not any(byte in value for byte in b"\r\n\0")


def _decoded(data: bytes) -> extproc.ProcessingResponse:
    try:
        return extproc.decode_response(data)
    except WireError as error:
        raise PickerError(f"its message cannot be read: {error}") from error


def _refused(reply: extproc.ImmediateResponse) -> Refused:
    status = reply.status if 200 <= reply.status < 600 else 500
    return Refused(status, changed([], reply.mutation or extproc.Mutation()), reply.body)
