"""What the headers of a call ask for, or how the call is rejected for them."""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.http2.hpack import Headers
from headgate.rpc import status

_PSEUDO: Final = frozenset({b":method", b":scheme", b":path", b":authority"})
_OF_CONNECTION: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_CONTENT_TYPE: Final = b"application/grpc"
_CONTENT_TYPE_BYTES: Final = len(_CONTENT_TYPE)


class Request(NamedTuple):
    """The headers of a call, as far as the server acts on them."""

    path: str = ""
    timeout_s: float | None = None
    is_malformed: bool = False
    """Whether the headers violate HTTP/2."""
    http_status: bytes = b""
    """Of a request that is no gRPC."""
    code: int = status.OK
    """The gRPC status of a call that is rejected for its headers, with its message."""
    message: str = ""


_MALFORMED: Final = Request(is_malformed=True)


def read(headers: Headers) -> Request:
    """Examine the headers of a call (RFC 9113, 8.2 and 8.3; "gRPC over HTTP2")."""
    found: dict[bytes, bytes] = {}
    is_regular = False
    for name, value in headers:
        if name.startswith(b":"):
            if is_regular or name not in _PSEUDO or name in found:
                return _MALFORMED
        else:
            is_regular = True
            if name in _OF_CONNECTION or name != name.lower():
                return _MALFORMED
        found[name] = value
    if b":method" not in found or b":scheme" not in found or not found.get(b":path"):
        return _MALFORMED
    if found[b":method"] != b"POST":
        return Request(http_status=b"405")
    content_type = found.get(b"content-type", b"")
    if not content_type.startswith(_CONTENT_TYPE) or content_type[_CONTENT_TYPE_BYTES:][:1] not in b"+;":
        return Request(http_status=b"415")
    path = found[b":path"].decode("latin-1")
    encoding = found.get(b"grpc-encoding", b"identity")
    if encoding != b"identity":
        shown = encoding[:40].decode("latin-1")
        return Request(path, code=status.UNIMPLEMENTED, message=f"grpc-encoding {shown!r}: use identity")
    timeout = found.get(b"grpc-timeout")
    try:
        return Request(path, None if timeout is None else status.read_timeout_s(timeout))
    except ValueError as error:
        return Request(path, code=status.INTERNAL, message=str(error))
