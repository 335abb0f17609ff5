"""The client certificate of a connection, which its TLS context has verified."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

LONGEST_NAME = 256
"""Characters of a name; longer ones, and those with characters that cannot be printed, are left out."""


class PeerCertificate:
    """A `headgate.auth.gate.Certificate`."""

    __slots__ = ("names",)

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names


def of(transport: asyncio.BaseTransport) -> PeerCertificate | None:
    """None without TLS, and if the client sent no certificate, or one that was not verified: the certificates
    of such connections have no content."""
    content = transport.get_extra_info("peercert")
    return PeerCertificate(names_of(content)) if content else None


def names_of(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The names in a certificate, as `SSLSocket.getpeercert` returns it: URIs, then DNS names, then the
    common name."""
    alternative = content.get("subjectAltName", ())
    uris = [name for kind, name in alternative if kind == "URI"]
    hosts = [name for kind, name in alternative if kind == "DNS"]
    parts = [part for parts in content.get("subject", ()) for part in parts]
    common = [value for name, value in parts if name == "commonName"]
    return tuple(dict.fromkeys(name for name in (*uris, *hosts, *common) if _may_be_shown(name)))


def _may_be_shown(name: str) -> bool:
    """Whether a name can be one in logs and metrics."""
    return 0 < len(name) <= LONGEST_NAME and name.isprintable()
