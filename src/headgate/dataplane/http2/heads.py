"""Converts message heads between HTTP/1.1 and HTTP/2."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import NamedTuple

from headgate.dataplane.http2.errors import Http2Error

Header = tuple[bytes, bytes]

_OF_CONNECTION = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
"""Headers that HTTP/2 does not allow (RFC 9113, 8.2.2)."""
_WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class Origin(NamedTuple):
    """Where requests of a connection go."""

    scheme: bytes = b"http"
    authority: bytes = b""
    """The address of the endpoint, for requests without a host."""


def request(head: bytes, origin: Origin) -> list[Header]:
    """The headers of a stream for a request as the gateway writes it, without its final empty line.

    A request of HTTP/1.0 may have no host: then the authority is the address, as HTTP/2 does not allow it to
    be empty.
    """
    scheme, address = origin
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.split(b" ")
    authority, headers = address, []
    for line in lines:
        name, _, value = line.partition(b":")
        if (name := name.lower()) == b"host":
            authority = value.strip() or address
        elif name not in _OF_CONNECTION:
            headers.append((name, value.strip()))
    pseudo = [(b":method", method), (b":scheme", scheme), (b":path", target), (b":authority", authority)]
    return pseudo + headers


def response(headers: Iterable[Header]) -> tuple[bytes, bool]:
    """The head of a response or an interim response, and whether a chunked body follows.

    h2 has checked that names and values are valid in header lines. Raises Http2Error.
    """
    status, has_length = b"", False
    lines: list[bytes] = []
    for name, value in headers:
        if name == b":status":
            status = value
        elif not name.startswith(b":"):  # no other pseudo-header has a meaning in a response
            has_length = has_length or name == b"content-length"
            lines += (name, b": ", value, b"\r\n")
    if len(status) != 3 or not status.isdigit() or not b"100" <= status <= b"599":
        raise Http2Error(f"a response with status {status.decode('latin-1')!r}")
    is_interim = status.startswith(b"1")
    is_chunked = not (has_length or is_interim or int(status) in _WITHOUT_BODY)
    if is_chunked:
        lines.append(b"transfer-encoding: chunked\r\n")
    return b"".join((b"HTTP/1.1 ", status, b" \r\n", *lines, b"\r\n")), is_chunked
