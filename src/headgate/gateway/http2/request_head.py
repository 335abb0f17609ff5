"""The head of a request as HTTP/1.1, from the headers of a stream, which are checked strictly.

What HTTP/1.1 would read differently is malformed (RFC 9113, 8.1.1), and nothing of it is passed on.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from headgate.http2 import Header, Headers

_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE: Final = re.compile(rb"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
_METHOD: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")
_TARGET: Final = re.compile(rb"/[!-~\x80-\xff]*|\*")
_LENGTH: Final = re.compile(rb"[0-9]{1,15}")
_OF_CONNECTION: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade", b"http2-settings"}
)
"""Headers that HTTP/2 does not allow (RFC 9113, 8.2.2)."""
_SCHEMES: Final = (b"http", b"https")
_PSEUDO: Final = (b":method", b":scheme", b":path", b":authority", b":protocol")
MAX_KNOWN: Final = 64
"""Headers of one connection whose lines are remembered: most requests repeat those of the last one."""
MAX_KNOWN_BYTES: Final = 1024


class RequestHead(NamedTuple):
    """A request line and header lines, without those that frame the body, and without the empty line."""

    text: bytes
    length: int
    """Of the body, as the client says; -1 if it does not."""
    has_no_content: bool
    """Whether its response has no content: a HEAD request."""


class HeadReader:
    """Reads the heads of the requests of one connection."""

    __slots__ = ("_known", "_last")

    def __init__(self) -> None:
        self._known: dict[Header, bytes] = {}
        self._last: tuple[Headers, RequestHead | None] = ((), None)

    def read(self, headers: Headers) -> RequestHead | None:
        """The head of a request; None if it is malformed."""
        if headers is not self._last[0]:
            self._last = headers, self._read(headers)
        return self._last[1]

    def _read(self, headers: Headers) -> RequestHead | None:
        pseudo: dict[bytes, bytes] = {}
        lines: list[bytes] = []
        cookies: list[bytes] = []
        length, host = -1, b""
        known = self._known
        for header in headers:
            name, value = header
            line = known.get(header)
            if line is not None:
                lines.append(line)
            elif name.startswith(b":"):
                if name not in _PSEUDO or name in pseudo or lines or cookies or host or length >= 0:
                    return None
                pseudo[name] = value
            elif name in _OF_CONNECTION or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
                return None
            elif name == b"content-length":
                if length >= 0 or not _LENGTH.fullmatch(value):
                    return None
                length = int(value)
            elif name == b"host":
                if host:
                    return None
                host = value
            elif name == b"cookie":
                cookies.append(value)
            elif name == b"te" and value.lower() != b"trailers":
                return None
            else:
                line = b"%b: %b\r\n" % header
                lines.append(line)
                if len(line) <= MAX_KNOWN_BYTES:
                    if len(known) >= MAX_KNOWN:
                        known.clear()
                    known[header] = line
        first = _first(pseudo, host)
        if first is None:
            return None
        if cookies:
            lines.append(b"cookie: %b\r\n" % b"; ".join(cookies))
        return RequestHead(b"".join((first, *lines)), length, pseudo[b":method"] == b"HEAD")


def _first(pseudo: dict[bytes, bytes], host: bytes) -> bytes | None:
    """The request line, and the line of the host; None if they are malformed."""
    method, authority = pseudo.get(b":method", b""), pseudo.get(b":authority", b"")
    if not _METHOD.fullmatch(method) or not _VALUE.fullmatch(authority) or b" " in authority:
        return None
    if host and authority and host.lower() != authority.lower():
        return None
    if b":protocol" in pseudo and method != b"CONNECT":
        return None
    if method == b"CONNECT":
        # With a protocol (RFC 8441), which was not offered: rejected like any other CONNECT.
        if len(pseudo) != (5 if b":protocol" in pseudo else 2) or not authority:
            return None
        target = authority
    else:
        target = pseudo.get(b":path", b"")
        if pseudo.get(b":scheme", b"").lower() not in _SCHEMES or not _TARGET.fullmatch(target):
            return None
    named = authority or host
    line = b"host: %b\r\n" % named if named else b""
    return b"%b %b HTTP/1.1\r\n%b" % (method, target, line)
