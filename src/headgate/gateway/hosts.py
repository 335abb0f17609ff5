"""The host of a request: validation, and the names that this gateway accepts."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from headgate.requests.refusal import Refusal

_HOST = re.compile(rb"(?:[A-Za-z0-9._~-]{0,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
"""A name or an address, and a port. Excludes characters that a URI's host may have but no real name has."""
_ABSOLUTE = re.compile(rb"https?://([^/?]+)(.*)", re.IGNORECASE | re.DOTALL)
_PATTERN = re.compile(r"(?:\*\.)?[a-z0-9._-]{1,253}|\[[0-9a-f:.]{2,45}\]", re.IGNORECASE)
_NAME = re.compile(r"[a-z0-9._-]{1,253}", re.IGNORECASE)
_SHOWN_BYTES = 128


class Hosts:
    """The names that this gateway accepts; without any, all are accepted."""

    def __init__(self, patterns: Iterable[str]) -> None:
        lowered = [pattern.lower().encode() for pattern in patterns]
        self._exact = frozenset(pattern for pattern in lowered if not pattern.startswith(b"*"))
        self._endings = tuple(pattern[1:] for pattern in lowered if pattern.startswith(b"*"))
        self._any = not lowered

    def refusal(self, host: bytes) -> Refusal | None:
        """Why a request for this host is rejected."""
        if not _HOST.fullmatch(host):
            return bad_host(f"host {_shown(host)} is neither a name nor an address, with or without a port")
        if self._any:
            return None
        name = _without_port(host)
        if name in self._exact or (self._endings and name.endswith(self._endings)):
            return None
        return Refusal.bad_request(
            f"this gateway does not serve host {_shown(host)}: ask one of its own names, or add this one to "
            f"clients.allowed_hosts",
            code="unknown_host",
            status=421,
        )


ANY = Hosts(())
"""Accepts all hosts."""


def named(host: bytes) -> bytes | None:
    """The name or address in a `host` header, in lower case and without its port; None if it has none."""
    return _without_port(host) if host and _HOST.fullmatch(host) else None


def _without_port(host: bytes) -> bytes:
    name = host.lower()
    return name if name.endswith(b"]") else name.rpartition(b":")[0] or name


def problems(patterns: Iterable[str]) -> list[str]:
    """The errors in patterns that are not valid hosts."""
    return [
        f"{pattern!r}: a host without port is needed, such as api.example.com, *.example.com or [::1]"
        for pattern in patterns
        if not _PATTERN.fullmatch(pattern)
    ]


def is_plain(name: str) -> bool:
    """Whether this is the name or address of one host, and nothing else."""
    if ":" in name:
        try:
            ipaddress.IPv6Address(name)
        except ValueError:
            return False
        return True
    return _NAME.fullmatch(name) is not None


def listening_problem(host: str) -> str | None:
    """Why nothing can listen on this host; names are not looked up. Empty means all addresses."""
    looks_like_address = ":" in host or host.rpartition(".")[2].isdigit()
    if looks_like_address:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return f"{host[:64]!r} is not an address: 127.0.0.1, 0.0.0.0 or ::1 is one, without a port"
    elif host and not _NAME.fullmatch(host):
        return f"{host[:64]!r} is neither a name nor an address"
    return None


def bad_host(message: str) -> Refusal:
    return Refusal.bad_request(message, code="invalid_host")


def bad_target(target: bytes, reason: str) -> Refusal:
    return Refusal.bad_request(f"target {_shown(target)} {reason}", code="invalid_target")


def split_target(method: bytes, target: bytes) -> tuple[bytes | None, bytes] | Refusal:
    """The host in a target, if any, and its path with the query (RFC 9112, 3.2).

    Clients send "http://host/path" to proxies, and "*" to ask about the server.
    """
    if b"#" in target:
        return bad_target(target, "has a fragment, which is never sent")
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return None, target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        return bad_target(target, "is neither a path nor a URL of http or https")
    host, path = absolute[1], absolute[2]
    if b"@" in host:
        return bad_target(target, "has a user name in it: use a header to authenticate")
    return host, path if path.startswith(b"/") else b"/" + path


def _shown(text: bytes) -> str:
    return repr(text[:_SHOWN_BYTES].decode("latin-1"))
