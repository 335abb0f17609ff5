"""Cross-origin requests of web pages (CORS): off unless origins are allowed.

The gateway responds to preflights itself, and then its CORS headers replace those of endpoints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_ORIGIN = re.compile(r"https?://(?:[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?|null|\*")
_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_NAMES = re.compile(rf"{_NAME}(?:[ \t]*,[ \t]*{_NAME})*".encode())
_MAX_ASKED_BYTES = 2048
_LIMITS = b", ".join(
    b"x-ratelimit-%b-%b" % (what, counted)
    for counted in (b"requests", b"tokens")
    for what in (b"limit", b"remaining", b"reset")
)
_EXPOSED = b"x-request-id, retry-after, x-headgate-decision, " + _LIMITS
"""Response headers that a page with credentials may read; one without may read all."""

PREFIX = b"access-control-"


class Cors:
    """CORS headers by origin. Header lines end with CRLF, so that they can be joined to a head."""

    def __init__(
        self,
        origins: Sequence[str],
        *,
        methods: Iterable[str] = (),
        headers: Iterable[str] = (),
        max_age_s: int = 0,
        credentials: bool = False,
    ) -> None:
        self._any = "*" in origins
        self._origins = frozenset(origin.lower().encode() for origin in origins)
        self.unasked = b"" if self._any else b"vary: origin\r\n"
        """Lines for responses to requests without an origin: a cache must not use them for one with an
        origin."""
        exposed = _EXPOSED if credentials else b"*"
        self._credentials = b"access-control-allow-credentials: true\r\n" if credentials else b""
        self._exposed = b"access-control-expose-headers: %b\r\n" % exposed
        self._headers = ", ".join(headers).encode()
        self._preflight = b"access-control-allow-methods: %b\r\naccess-control-max-age: %d\r\n" % (
            ", ".join(methods).encode(),
            max_age_s,
        )

    def lines(self, origin: bytes) -> bytes:
        """The lines of every response to a request of this origin."""
        allowed = self._allowed(origin)
        return allowed + self._exposed + self.unasked if allowed else self.unasked

    def preflight_lines(self, origin: bytes, asked: bytes) -> bytes:
        """The lines of the response to a preflight that asks for these headers.

        Unless headers are configured, all requested ones are allowed: SDKs send many of their own.
        """
        allowed = self._allowed(origin)
        if not allowed:
            return self.unasked
        named = self._headers
        if not named and len(asked) <= _MAX_ASKED_BYTES and _NAMES.fullmatch(asked):
            named = asked
        headers = b"access-control-allow-headers: %b\r\n" % named if named else b""
        return allowed + self._preflight + headers + self.unasked

    def _allowed(self, origin: bytes) -> bytes:
        if self._any:
            return b"access-control-allow-origin: *\r\n"
        if origin.lower() not in self._origins:
            return b""
        return b"access-control-allow-origin: %b\r\n%b" % (origin, self._credentials)


def problems(origins: Sequence[str], *, credentials: bool) -> list[str]:
    """The errors in the origins."""
    found = [
        f"{origin!r}: an origin such as https://app.example.com is needed, without a path, or *"
        for origin in origins
        if not _ORIGIN.fullmatch(origin.lower())
    ]
    if credentials and "*" in origins:
        found.append("'*' with cors.credentials would let every page act as its user: name the origins")
    return found


def not_names(names: Iterable[str]) -> list[str]:
    """The errors in names that no method or header can have."""
    return [
        f"{name!r} cannot be the name of a method or a header"
        for name in names
        if not re.fullmatch(_NAME, name)
    ]
