"""What the filters of a rule make of a head: the redirect, the request for a backend, and the response."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import httptools

from headgate.dataplane.rewriting.chunks import Chunks
from headgate.gateway.refusals import status_line
from headgate.gateway.request import FRAMING_WITH_UNDERSCORES, HOP_BY_HOP, LETTER_X, RESERVED, nominated

if TYPE_CHECKING:
    from headgate.dataplane.trust import Peer
    from headgate.gateway.gateway_api.head import Head
    from headgate.requests.client import Header
    from headgate.routing.gateway_api import Entry, Filters, HeaderChange, Redirect

_PORTS: Final = {"http": 80, "https": 443}
_ABOUT_CLIENT: Final = frozenset(
    {b"host", b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-request-id"}
)
"""Written anew, from what the gateway itself knows."""
_NOT_FORWARDED: Final = HOP_BY_HOP | FRAMING_WITH_UNDERSCORES | _ABOUT_CLIENT | {b"content-length", b"expect"}
_FROM_TRUSTED: Final = (*RESERVED, b"x-forwarded-", b"x-real-ip")
_NO_CONTENT, _NOT_MODIFIED = 204, 304


class Asked(NamedTuple):
    """The request line and headers for a backend, after all filters."""

    target: bytes
    host: bytes
    asked_host: bytes
    """As the client sent it."""
    headers: list[Header]


def location(redirect: Redirect, head: Head, entry: Entry, scheme: str, port: int) -> bytes:
    """Where a redirect leads. `scheme` and `port` are those of the listener."""
    to = redirect.scheme or scheme
    number = redirect.port or (_PORTS[to] if redirect.scheme is not None else port)
    name = redirect.hostname or head.name
    path = head.path if redirect.path is None else redirect.path.apply(head.path, entry.match.prefix)
    at = f"{to}://{name}" + ("" if number == _PORTS[to] else f":{number}")
    return at.encode("latin-1") + path.encode("latin-1") + head.query


def asked(head: Head, entry: Entry, filters: Iterable[Filters], peer: Peer) -> Asked:
    """What the backend is asked. `filters`: those of the rule, and of the backend."""
    target, host, headers = head.target, head.host, head.headers
    if not peer.is_trusted:
        headers = [header for header in headers if not _is_reserved(header[0])]
    for each in filters:
        if each.request is not None:
            headers = each.request.apply(headers)
        if each.rewrite is not None:
            if each.rewrite.hostname is not None:
                host = each.rewrite.hostname.encode()
            if each.rewrite.path is not None:
                path = each.rewrite.path.apply(head.path, entry.match.prefix)
                target = path.encode("latin-1") + head.query
    return Asked(target, host, head.host, headers)


def _is_reserved(name: bytes) -> bool:
    """Whether only trusted clients may send the header; filters and pickers may set it."""
    return name[0] == LETTER_X and name.replace(b"_", b"-").startswith(_FROM_TRUSTED)


def forwarded(method: bytes, request: Asked, peer: Peer, request_id: bytes, framing: bytes) -> bytes:
    """The head for a backend. `framing`: header lines about the body, or an upgrade."""
    opening = peer.opening(request.asked_host, request.headers)
    if request.host != request.asked_host:
        before, after = (b"\r\nhost: %b\r\n" % host for host in (request.asked_host, request.host))
        opening = opening.replace(before, after, 1)
    lines = [method, b" ", request.target, opening]
    dropped = nominated(request.headers)
    for name, value in request.headers:
        if name not in _NOT_FORWARDED and name not in dropped:
            lines += (name, b": ", value, b"\r\n")
    lines += (b"x-request-id: ", request_id, b"\r\n", framing, b"\r\n")
    return b"".join(lines)


class ResponseHead:
    """The head of a backend's response for the client, and how its body is framed. Raises HttpParserError if
    that cannot be forwarded."""

    __slots__ = ("_framing", "ends_with_connection", "has_body", "keep_alive", "lines")

    def __init__(
        self,
        status: int,
        headers: list[Header],
        changes: Iterable[HeaderChange],
        *,
        is_http_1_0: bool,
        is_head: bool,
        may_keep_alive: bool,
    ) -> None:
        self.keep_alive = may_keep_alive
        self.ends_with_connection = False
        """Whether the body is complete when the backend closes its connection."""
        self.has_body = not is_head and status not in (_NO_CONTENT, _NOT_MODIFIED)
        self._framing: Chunks | None = None
        """Bounds the framing of chunks, and removes it for a client that does not support it."""
        is_chunked, length = False, b""
        dropped = nominated(headers)
        kept: list[Header] = []
        for name, value in headers:
            if name == b"transfer-encoding":
                if is_chunked or value.lower() != b"chunked":
                    raise httptools.HttpParserError("it has a transfer-encoding other than chunked")
                is_chunked = True
            elif name == b"content-length":
                length = value
            elif name not in HOP_BY_HOP and name not in dropped:
                kept.append((name, value))
        for change in changes:
            kept = change.apply(kept)
        parts = [status_line(status)]
        for header in kept:
            parts += (header[0], b": ", header[1], b"\r\n")
        if is_chunked and self.has_body:
            self._framing = Chunks()
            if is_http_1_0:
                self.keep_alive = False
            else:
                parts.append(b"transfer-encoding: chunked\r\n")
        elif length and status != _NO_CONTENT:
            parts += (b"content-length: ", length, b"\r\n")
        elif self.has_body:
            self.ends_with_connection = True
            self.keep_alive = False
        if not self.keep_alive:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        self.lines = b"".join(parts)
        """Sent with the first bytes of the body; empty once that is done."""

    def pass_on(self, data: bytes, *, is_http_1_0: bool) -> bytes:
        """The bytes for the client from these of the body. Raises HttpParserError for invalid framing."""
        if self._framing is not None and data:
            data = self._framing.feed(data)[0] if is_http_1_0 else self._framing.follow(data)
        if self.lines:
            data, self.lines = self.lines + data, b""
        return data
