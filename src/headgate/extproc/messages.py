"""The messages of external processing. Names follow Envoy's definitions."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

Header = tuple[bytes, bytes]
"""Lower-case name and value."""

# How bodies are sent to the processor (`ProcessingMode.BodySendMode`).
NONE: Final = 0
STREAMED: Final = 1
BUFFERED: Final = 2
BUFFERED_PARTIAL: Final = 3
FULL_DUPLEX_STREAMED: Final = 4
GRPC: Final = 5

# What happens to a header that exists already (`HeaderAppendAction`).
APPEND: Final = 0
OVERWRITE: Final = 2


class HttpHeaders(msgspec.Struct, gc=False):
    headers: list[Header] = []
    end_of_stream: bool = False
    """Whether there is no body."""


class HttpBody(msgspec.Struct, gc=False):
    """The body, or a part of it."""

    body: bytes = b""
    end_of_stream: bool = False
    end_of_stream_without_message: bool = False
    """Like `end_of_stream`, for bodies that are sent as gRPC messages: there is no message."""


class HttpTrailers(msgspec.Struct, gc=False):
    trailers: list[Header] = []


class Protocol(msgspec.Struct, frozen=True, gc=False):
    """How the proxy sends bodies in this stream; it says so in the first message."""

    request_body_mode: int = NONE
    response_body_mode: int = NONE
    send_body_without_waiting_for_header_response: bool = False


class ProcessingRequest(msgspec.Struct, gc=False):
    """One message from a proxy."""

    message: HttpHeaders | HttpBody | HttpTrailers
    is_response: bool = False
    """Whether the message is part of the response; otherwise of the request."""
    metadata: bytes = b""
    """An encoded `Metadata`: see `structs.metadata`."""
    attributes: bytes = b""
    """Encoded entries of the attributes: see `structs.attributes`."""
    protocol: Protocol | None = None
    observability_mode: bool = False
    """Whether the proxy ignores all replies."""


class SetHeader(NamedTuple):
    """A header to set. `action`: what happens to one with the same name."""

    name: bytes
    value: bytes
    action: int = OVERWRITE


class Mutation(msgspec.Struct, gc=False):
    """Changes of headers or trailers."""

    set_headers: list[SetHeader] = []
    remove_headers: list[bytes] = []


class StreamedBody(msgspec.Struct, gc=False):
    """A part of the body in the mode FULL_DUPLEX_STREAMED. It replaces nothing: the proxy sends exactly what
    it gets."""

    body: bytes = b""
    end_of_stream: bool = False
    end_of_stream_without_message: bool = False


class HeadersResponse(msgspec.Struct, gc=False):
    mutation: Mutation | None = None
    clear_route_cache: bool = False
    """Whether the proxy selects the route again."""
    body: bytes | None = None
    """With CONTINUE_AND_REPLACE: the whole body, without asking for more of it."""


class BodyResponse(msgspec.Struct, gc=False):
    mutation: Mutation | None = None
    body: bytes | None = None
    """Replaces the body, or the part of it; None leaves it as it is."""
    clear_body: bool = False
    streamed: StreamedBody | None = None
    clear_route_cache: bool = False


class TrailersResponse(msgspec.Struct, gc=False):
    mutation: Mutation | None = None


class ImmediateResponse(msgspec.Struct, gc=False):
    """Ends the request with this response."""

    status: int = 0
    mutation: Mutation | None = None
    body: bytes = b""
    grpc_status: int | None = None
    details: str = ""
    """For the log of the proxy (`response.code_details`)."""


class ProcessingResponse(msgspec.Struct, gc=False):
    """One reply of a processor."""

    reply: HeadersResponse | BodyResponse | TrailersResponse | ImmediateResponse | None
    is_response: bool = False
    """Whether it replies to a part of the response; otherwise of the request."""
    dynamic_metadata: bytes = b""
    """An encoded `Struct`: see `structs`."""
