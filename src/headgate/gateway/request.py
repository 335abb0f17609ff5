"""A client's request as the listener hands it on, and the head that is sent to the endpoint for it."""

from __future__ import annotations

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers that speak of one connection (RFC 9110, 7.6.1) and are never passed on."""

_NOT_FORWARDED = HOP_BY_HOP | {b"content-length", b"expect", b"x-request-id"}
_NEEDED = {b"host", b"content-length", b"transfer-encoding"}
_NONE: frozenset[bytes] = frozenset()
_RESERVED = (b"x-gateway-", b"x-headgate-")
"""Prefixes of headers by which gateways talk among themselves; from outside they mean nothing."""

Header = tuple[bytes, bytes]
"""Lower-case name and value."""


class Request:
    """One request, complete with its body."""

    __slots__ = (
        "_forwarded",
        "arrived_at",
        "body",
        "given_id",
        "headers",
        "is_http_1_0",
        "keep_alive",
        "method",
        "path",
        "target",
    )

    def __init__(
        self,
        method: bytes,
        target: bytes,
        headers: list[Header],
        body: bytes,
        keep_alive: bool,
        is_http_1_0: bool,
        arrived_at: float,
    ) -> None:
        if not target.startswith(b"/"):
            target = _origin_form(target)
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.keep_alive = keep_alive
        self.is_http_1_0 = is_http_1_0
        self.arrived_at = arrived_at
        self.given_id = b""
        """What the client calls the request in `x-request-id`; empty if it has no name for it."""
        path = target.decode("latin-1")
        self.path = path.partition("?")[0] if "?" in path else path
        self._forwarded = self._pick_forwarded(headers)

    def header(self, name: bytes) -> str:
        """The first value of a header by its lower-case name, "" if there is none."""
        for key, value in self.headers:
            if key == name:
                return value.decode("latin-1")
        return ""

    def message(self, body: bytes, request_id: bytes) -> bytes:
        """What is sent upstream: the head with the headers that are passed on, and the body."""
        parts = self._forwarded
        parts += (b"x-request-id: ", request_id, b"\r\ncontent-length: %d\r\n\r\n" % len(body), body)
        whole = b"".join(parts)
        del parts[-4:]
        return whole

    def _pick_forwarded(self, headers: list[Header]) -> list[bytes]:
        """The request line and the headers that are passed on, in pieces; the one pass over the headers."""
        parts = [self.method, b" ", self.target, b" HTTP/1.1\r\n"]
        has_host = False
        for name, value in headers:
            if name in _NOT_FORWARDED:
                if name == b"x-request-id":
                    self.given_id = self.given_id or value
                elif name == b"connection" and (dropped := nominated(headers)):
                    return self._pick_forwarded(
                        [header for header in headers if header[0] not in dropped | {b"connection"}]
                    )
            elif not name.startswith(_RESERVED):
                has_host |= name == b"host"
                parts += (name, b": ", value, b"\r\n")
        if not has_host:
            parts.append(b"host:\r\n")  # HTTP/1.0 needs none, HTTP/1.1 does (RFC 9112, 3.2)
        return parts


def nominated(headers: list[Header]) -> frozenset[bytes]:
    """Further hop-by-hop headers, which `connection` names; almost always none."""
    named = _NONE
    for name, value in headers:
        if name == b"connection" and value not in (b"keep-alive", b"close", b"Keep-Alive"):
            named = named.union(token.strip().lower() for token in value.split(b",")) - _NEEDED
    return named


def _origin_form(target: bytes) -> bytes:
    """The path and query of "http://host/path?query", which is how a client asks a proxy."""
    _, _, rest = target.partition(b"://")
    _, slash, path = rest.partition(b"/")
    return slash + path if slash else b"/"
