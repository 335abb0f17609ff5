"""From bytes to messages.

Reads positions instead of slices, so that a body is copied once. Unknown fields are skipped. Raises WireError
for anything that is not a message.
"""

from __future__ import annotations

from typing import Final

from headgate.extproc.messages import (
    APPEND,
    OVERWRITE,
    BodyResponse,
    Header,
    HeadersResponse,
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ImmediateResponse,
    Mutation,
    ProcessingRequest,
    ProcessingResponse,
    Protocol,
    SetHeader,
    StreamedBody,
    TrailersResponse,
)
from headgate.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, WireError, delimited, varint_at

MAX_HEADERS: Final = 1000
"""In one message: an empty header takes two bytes, so the size of a message is not enough of a limit."""

MAX_FIELDS: Final = 1000
"""In one message at one level: fields of two bytes would take seconds to skip."""
MAX_PART_BYTES: Final = 512 << 10
"""Of the parts of a message that are no bodies, together."""

_REQUEST_HEADERS: Final = 2
_RESPONSE_HEADERS: Final = 3
_REQUEST_BODY: Final = 4
_RESPONSE_BODY: Final = 5
_RESPONSE_TRAILERS: Final = 7
_METADATA: Final = 8
_ATTRIBUTES: Final = 9
_OBSERVABILITY: Final = 10
_PROTOCOL: Final = 11
_IMMEDIATE: Final = 7
_DYNAMIC_METADATA: Final = 8

_KEY_TAG: Final = 0x0A
_VALUE_TAG: Final = 0x12
_RAW_VALUE_TAG: Final = 0x1A
"""Of a HeaderValue: its key, its value as text, and its value as bytes."""
_FIRST_TAG: Final = 0x0A
"""Field 1 with a length."""
_ENDS_TAG: Final = 0x10
"""Field 2 with a number: the end of a body."""
_LENGTH_MASK: Final = 0x87
"""Of a tag of one byte, what is BYTES if its field has a length."""


def decode_request(data: bytes) -> ProcessingRequest:
    """A message from a proxy. Raises WireError."""
    message: HttpHeaders | HttpBody | HttpTrailers | None = None
    is_response = observes = False
    metadata = b""
    attributes: list[bytes] = []
    count, left = 0, MAX_PART_BYTES
    protocol: Protocol | None = None
    try:
        at, end = 0, len(data)
        while at < end:
            tag = data[at]
            if tag & _LENGTH_MASK == BYTES:
                # As `_field`, without a call: most messages have one or two fields, and headers dozens.
                number, wire_type, length, start = tag >> 3, BYTES, data[at + 1], at + 2
                if length >= 0x80:
                    length, start = varint_at(data, at + 1)
                at = start + length
                if at > end:
                    raise WireError(f"field {number} ends after its message")
            else:
                number, wire_type, start, at = _field(data, at, end)
            count += 1
            if not _REQUEST_BODY <= number <= _RESPONSE_BODY and wire_type == BYTES:
                left -= at - start
            if count > MAX_FIELDS or left < 0:
                raise WireError(
                    f"it has more than {MAX_FIELDS} fields, or {MAX_PART_BYTES} bytes besides a body"
                )
            if wire_type != BYTES:
                if number == _OBSERVABILITY and wire_type == VARINT:
                    observes = bool(start)
            elif _REQUEST_HEADERS <= number <= _RESPONSE_TRAILERS:
                is_response = bool(number & 1)
                if number <= _RESPONSE_HEADERS:
                    message = _headers(data, start, at)
                elif number <= _RESPONSE_BODY:
                    message = _body(data, start, at)
                else:
                    message = HttpTrailers(_map_inside(data, start, at))
            elif number == _METADATA:
                metadata = data[start:at]
            elif number == _ATTRIBUTES:
                attributes.append(delimited(1, data[start:at]))
            elif number == _PROTOCOL:
                protocol = _protocol(data, start, at)
    except IndexError:
        raise WireError("the message ends within a field") from None
    if message is None:
        raise WireError("the message has neither headers, body nor trailers")
    return ProcessingRequest(message, is_response, metadata, b"".join(attributes), protocol, observes)


def decode_response(data: bytes) -> ProcessingResponse:
    """A reply of a processor. Raises WireError."""
    found = ProcessingResponse(None)
    try:
        at, end, count = 0, len(data), 0
        while at < end:
            number, wire_type, start, at = _field(data, at, end)
            count = _counted(count)
            if wire_type != BYTES:
                continue
            if 1 <= number < _IMMEDIATE:
                found.is_response = not number & 1
                found.reply = _reply(number, data, start, at)
            elif number == _IMMEDIATE:
                found.reply = _immediate(data, start, at)
            elif number == _DYNAMIC_METADATA:
                found.dynamic_metadata = data[start:at]
    except IndexError:
        raise WireError("the message ends within a field") from None
    return found


def _counted(count: int) -> int:
    """One field more. Raises WireError if there are too many."""
    if count >= MAX_FIELDS:
        raise WireError(f"a message has more than {MAX_FIELDS} fields")
    return count + 1


def _field(data: bytes, at: int, end: int) -> tuple[int, int, int, int]:
    """Number and wire type of the field at this position; the start of its content, or its number; its
    end."""
    tag = data[at]
    at += 1
    if tag >= 0x80:
        tag, at = varint_at(data, at - 1)
    wire_type = tag & 7
    if wire_type == BYTES:
        length = data[at]
        at += 1
        if length >= 0x80:
            length, at = varint_at(data, at - 1)
        if length > end - at:
            raise WireError(f"field {tag >> 3} ends after its message")
        return tag >> 3, BYTES, at, at + length
    if wire_type == VARINT:
        value, at = varint_at(data, at)
        if at > end:
            raise WireError(f"field {tag >> 3} ends after its message")
        return tag >> 3, VARINT, value, at
    if wire_type not in (FIXED64, FIXED32):
        raise WireError(f"field {tag >> 3} has wire type {wire_type}, which is not in use")
    size = 8 if wire_type == FIXED64 else 4
    if size > end - at:
        raise WireError(f"field {tag >> 3} ends after its message")
    return tag >> 3, wire_type, at, at + size


# -- from proxies


def _headers(data: bytes, at: int, end: int) -> HttpHeaders:
    found = HttpHeaders()
    while at < end:
        number, wire_type, start, at = _field(data, at, end)
        if number == 1 and wire_type == BYTES:
            found.headers = _header_map(data, start, at)
        elif number == 3 and wire_type == VARINT:
            found.end_of_stream = bool(start)
    return found


def _body(data: bytes, at: int, end: int) -> HttpBody:
    # The usual message has the body, and says at most that it ends.
    if at + 2 <= end and data[at] == _FIRST_TAG:
        length, start = data[at + 1], at + 2
        if length >= 0x80:
            length, start = varint_at(data, at + 1)
        stop = start + length
        if stop == end:
            return HttpBody(data[start:stop])
        if stop + 2 == end and data[stop] == _ENDS_TAG and data[stop + 1] < 0x80:
            return HttpBody(data[start:stop], data[stop + 1] != 0)
    found = HttpBody()
    count = 0
    while at < end:
        number, wire_type, start, at = _field(data, at, end)
        count = _counted(count)
        if number == 1 and wire_type == BYTES:
            found.body = data[start:at]
        elif number == 2 and wire_type == VARINT:
            found.end_of_stream = bool(start)
        elif number == 3 and wire_type == VARINT:
            found.end_of_stream_without_message = bool(start)
    return found


def _map_inside(data: bytes, at: int, end: int) -> list[Header]:
    """The headers of a message with nothing but a header map."""
    found: list[Header] = []
    while at < end:
        number, wire_type, start, at = _field(data, at, end)
        if number == 1 and wire_type == BYTES:
            found = _header_map(data, start, at)
    return found


def _header_map(data: bytes, at: int, end: int) -> list[Header]:
    """The loop over all headers, which takes most of the time of a message; so it reads fields of the usual
    kind without calls."""
    found: list[Header] = []
    while at < end:
        if data[at] != _FIRST_TAG:
            _, _, _, at = _field(data, at, end)
            continue
        length = data[at + 1]
        at += 2
        if length >= 0x80:
            length, at = varint_at(data, at - 1)
        stop = at + length
        if stop > end:
            raise WireError("a header ends after its message")
        # The usual header has a short key, then a short value as bytes, and nothing else.
        if (
            length > 3
            and data[at] == _KEY_TAG
            and data[at + 1] < 0x80
            and (middle := at + 2 + data[at + 1]) + 2 <= stop
            and data[middle] == _RAW_VALUE_TAG
            and data[middle + 1] < 0x80
            and middle + 2 + data[middle + 1] == stop
        ):
            found.append((data[at + 2 : middle], data[middle + 2 : stop]))
        else:
            found.append(_header(data, at, stop))
        if len(found) > MAX_HEADERS:
            raise WireError(f"a message has more than {MAX_HEADERS} headers")
        at = stop
    return found


def _header(data: bytes, at: int, end: int) -> Header:
    name = text = raw = b""
    while at < end:
        tag = data[at]
        if tag not in (_KEY_TAG, _VALUE_TAG, _RAW_VALUE_TAG):
            _, _, _, at = _field(data, at, end)
            continue
        length = data[at + 1]
        at += 2
        if length >= 0x80:
            length, at = varint_at(data, at - 1)
        stop = at + length
        if stop > end:
            raise WireError("a header ends after its message")
        if tag == _KEY_TAG:
            name = data[at:stop]
        elif tag == _RAW_VALUE_TAG:
            raw = data[at:stop]
        else:
            text = data[at:stop]
        at = stop
    return name, raw or text


def _protocol(data: bytes, at: int, end: int) -> Protocol:
    values = {1: 0, 2: 0, 3: 0}
    while at < end:
        number, wire_type, start, at = _field(data, at, end)
        if wire_type == VARINT and number in values:
            values[number] = start
    return Protocol(values[1], values[2], bool(values[3]))


# -- from processors


def _reply(number: int, data: bytes, at: int, end: int) -> HeadersResponse | BodyResponse | TrailersResponse:
    count = 0
    if number >= 5:
        reply = TrailersResponse()
        while at < end:
            inner, wire_type, start, at = _field(data, at, end)
            count = _counted(count)
            if inner == 1 and wire_type == BYTES:
                reply.mutation = _mutation(data, start, at)
        return reply
    common = BodyResponse()
    while at < end:
        inner, wire_type, start, at = _field(data, at, end)
        count = _counted(count)
        if inner == 1 and wire_type == BYTES:
            common = _common(data, start, at)
    if number >= 3:
        return common
    return HeadersResponse(common.mutation, common.clear_route_cache, common.body)


def _common(data: bytes, at: int, end: int) -> BodyResponse:
    found = BodyResponse()
    count = 0
    while at < end:
        number, wire_type, start, at = _field(data, at, end)
        count = _counted(count)
        if number == 2 and wire_type == BYTES:
            found.mutation = _mutation(data, start, at)
        elif number == 3 and wire_type == BYTES:
            _body_mutation(found, data, start, at)
        elif number == 5 and wire_type == VARINT:
            found.clear_route_cache = bool(start)
    return found


def _body_mutation(found: BodyResponse, data: bytes, at: int, end: int) -> None:
    """Of the alternatives, the last one counts."""
    count = 0
    while at < end:
        number, wire_type, start, at = _field(data, at, end)
        count = _counted(count)
        if number == 1 and wire_type == BYTES:
            found.body, found.clear_body, found.streamed = data[start:at], False, None
        elif number == 2 and wire_type == VARINT:
            found.body, found.clear_body, found.streamed = None, bool(start), None
        elif number == 3 and wire_type == BYTES:
            part = _body(data, start, at)
            streamed = StreamedBody(part.body, part.end_of_stream, part.end_of_stream_without_message)
            found.body, found.clear_body, found.streamed = None, False, streamed


def _mutation(data: bytes, at: int, end: int) -> Mutation:
    found = Mutation()
    if end - at > MAX_PART_BYTES:
        raise WireError(f"a mutation has more than {MAX_PART_BYTES} bytes")
    while at < end:
        number, wire_type, start, at = _field(data, at, end)
        if wire_type != BYTES:
            continue
        if number == 1:
            found.set_headers.append(_set_header(data, start, at))
        elif number == 2:
            found.remove_headers.append(data[start:at])
        if len(found.set_headers) + len(found.remove_headers) > MAX_HEADERS:
            raise WireError(f"a mutation changes more than {MAX_HEADERS} headers")
    return found


def _set_header(data: bytes, at: int, end: int) -> SetHeader:
    """As Envoy's filter reads it: without an action, which is 0, a header that exists is replaced, unless the
    older field `append` is true."""
    header: Header = (b"", b"")
    action, appends = 0, False
    count = 0
    while at < end:
        number, wire_type, start, at = _field(data, at, end)
        count = _counted(count)
        if number == 1 and wire_type == BYTES:
            header = _header(data, start, at)
        elif number == 2 and wire_type == BYTES:
            appends = _first_number(data, start, at) == 1
        elif number == 3 and wire_type == VARINT:
            action = start
    return SetHeader(*header, action or (APPEND if appends else OVERWRITE))


def _immediate(data: bytes, at: int, end: int) -> ImmediateResponse:
    found = ImmediateResponse()
    count = 0
    while at < end:
        number, wire_type, start, at = _field(data, at, end)
        count = _counted(count)
        if wire_type != BYTES:
            continue
        if number == 1:
            found.status = _first_number(data, start, at)
        elif number == 2:
            found.mutation = _mutation(data, start, at)
        elif number == 3:
            found.body = data[start:at]
        elif number == 4:
            found.grpc_status = _first_number(data, start, at)
        elif number == 5:
            found.details = data[start:at].decode("utf-8", "replace")
    return found


def _first_number(data: bytes, at: int, end: int) -> int:
    """Field 1 of a message that wraps a number."""
    found = 0
    while at < end:
        number, wire_type, start, at = _field(data, at, end)
        if number == 1 and wire_type == VARINT:
            found = start
    return found
