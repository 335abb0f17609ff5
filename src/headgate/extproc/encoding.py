"""From messages to bytes.

A part of a body is copied once: lengths are computed from the inside out, and all is joined at the end.
"""

from __future__ import annotations

from typing import Final

from headgate.extproc.messages import (
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
    TrailersResponse,
)
from headgate.protobuf_wire import delimited, number_field, varint, varint_at

_SHORT_BYTES: Final = 100
"""Of a header whose lengths all take one byte."""


def encode_request(request: ProcessingRequest) -> bytes:
    """A message of a proxy."""
    message, shift = request.message, int(request.is_response)
    match message:
        case HttpHeaders():
            content = delimited(1, _header_map(message.headers)) + _flag(3, message.end_of_stream)
            parts = [delimited(2 + shift, content)]
        case HttpBody():
            parts = [delimited(4 + shift, _body(message))]
        case HttpTrailers():
            parts = [delimited(6 + shift, delimited(1, _header_map(message.trailers)))]
    if request.metadata:
        parts.append(delimited(8, request.metadata))
    parts.append(_retagged(request.attributes))
    parts.append(_flag(10, request.observability_mode))
    if (protocol := request.protocol) is not None:
        content = number_field(1, protocol.request_body_mode) + number_field(2, protocol.response_body_mode)
        content += _flag(3, protocol.send_body_without_waiting_for_header_response)
        parts.append(delimited(11, content))
    return b"".join(parts)


def encode_response(response: ProcessingResponse) -> bytes:
    """A reply of a processor."""
    reply, shift = response.reply, int(response.is_response)
    match reply:
        case BodyResponse():
            encoded = _body_response(reply, 3 + shift)
        case HeadersResponse():
            encoded = delimited(1 + shift, delimited(1, _headers_response(reply)))
        case TrailersResponse():
            encoded = delimited(5 + shift, _mutation(1, reply.mutation))
        case ImmediateResponse():
            encoded = delimited(7, _immediate(reply))
        case None:
            encoded = b""
    return encoded + delimited(8, response.dynamic_metadata) if response.dynamic_metadata else encoded


# -- of proxies


def _header_map(headers: list[Header]) -> bytes:
    return b"".join(delimited(1, delimited(1, name) + delimited(3, value)) for name, value in headers)


def _body(message: HttpBody) -> bytes:
    return b"".join(
        (
            delimited(1, message.body),
            _flag(2, message.end_of_stream),
            _flag(3, message.end_of_stream_without_message),
        )
    )


def _retagged(attributes: bytes) -> bytes:
    """The entries of attributes: they are kept with the tag of field 1, so that they are a message of their
    own."""
    found, at = [], 0
    while at < len(attributes):
        length, start = varint_at(attributes, at + 1)
        at = start + length
        found.append(delimited(9, attributes[start:at]))
    return b"".join(found)


# -- of processors


def _headers_response(reply: HeadersResponse) -> bytes:
    """A CommonResponse."""
    parts = []
    if reply.body is not None:
        parts.append(number_field(1, 1))  # CONTINUE_AND_REPLACE
    parts.append(_mutation(2, reply.mutation))
    if reply.body is not None:
        parts.append(delimited(3, delimited(1, reply.body)))
    parts.append(_flag(5, reply.clear_route_cache))
    return b"".join(parts)


def _body_response(reply: BodyResponse, number: int) -> bytes:
    before, after = _mutation(2, reply.mutation), _flag(5, reply.clear_route_cache)
    if reply.streamed is not None:
        streamed = reply.streamed
        tail = _flag(2, streamed.end_of_stream) + _flag(3, streamed.end_of_stream_without_message)
        return _with_streamed(streamed.body, tail, before, after, number)
    if reply.clear_body:
        return delimited(number, delimited(1, before + delimited(3, number_field(2, 1)) + after))
    if reply.body is None:
        return delimited(number, delimited(1, before + after))
    return delimited(number, delimited(1, b"".join((before, delimited(3, delimited(1, reply.body)), after))))


def encode_streamed(body: bytes, *, is_response: bool, is_end: bool) -> bytes:
    """A reply with a part of a body, and nothing else: the most frequent one."""
    return _with_streamed(body, b"\x10\x01" if is_end else b"", b"", b"", 3 + int(is_response))


def _with_streamed(body: bytes, tail: bytes, before: bytes, after: bytes, number: int) -> bytes:
    """A BodyResponse with a part of a body, which is inside four messages: their lengths precede it."""
    size = varint(len(body))
    inner = 1 + len(size) + len(body) + len(tail)
    of_part = varint(inner)
    inner += 1 + len(of_part)
    of_mutation = varint(inner)
    inner += 1 + len(of_mutation) + len(before) + len(after)
    of_common = varint(inner)
    of_response = varint(inner + 1 + len(of_common))
    tag = varint(number << 3 | 2)
    parts = (tag, of_response, b"\x0a", of_common, before, b"\x1a", of_mutation, b"\x1a", of_part, b"\x0a")
    return b"".join((*parts, size, body, tail, after))


def _mutation(number: int, mutation: Mutation | None) -> bytes:
    if mutation is None:
        return b""
    parts = []
    for name, value, action in mutation.set_headers:
        size = len(name) + len(value) + 4
        if size < _SHORT_BYTES and action:
            # The same as below in one step.
            sizes = (size + 4, size, len(name), name, len(value), value, action)
            parts.append(b"\x0a%c\x0a%c\x0a%c%b\x1a%c%b\x18%c" % sizes)
            continue
        header = delimited(1, delimited(1, name) + delimited(3, value))
        # To Envoy's filter, the action 0 is none: it appends by the older field `append` only.
        how = number_field(3, action) if action else delimited(2, number_field(1, 1))
        parts.append(delimited(1, header + how))
    parts += (delimited(2, name) for name in mutation.remove_headers)
    return delimited(number, b"".join(parts))


def _immediate(reply: ImmediateResponse) -> bytes:
    parts = [delimited(1, number_field(1, reply.status)), _mutation(2, reply.mutation)]
    if reply.body:
        parts.append(delimited(3, reply.body))
    if reply.grpc_status is not None:
        parts.append(delimited(4, number_field(1, reply.grpc_status)))
    if reply.details:
        parts.append(delimited(5, reply.details.encode()))
    return b"".join(parts)


def _flag(number: int, is_set: bool) -> bytes:
    """A boolean: false is the default, and is not sent."""
    return bytes((number << 3, 1)) if is_set else b""
