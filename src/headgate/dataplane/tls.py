"""TLS to endpoints: one context for all endpoints that are verified the same way."""

from __future__ import annotations

import ssl
from collections.abc import Iterable

from headgate import http_clients
from headgate.routing import Tls


class Contexts:
    """Creates contexts when first needed: reading the system's CA certificates takes milliseconds."""

    def __init__(self) -> None:
        self._contexts: dict[tuple[Tls, bool], ssl.SSLContext] = {}
        """By kind of verification, and whether HTTP/2 is used."""

    def get(self, tls: Tls, *, http2: bool = False) -> ssl.SSLContext:
        """The context for these TLS settings. Raises SSLError if the CA certificates are invalid."""
        alike = _without_name(tls)
        context = self._contexts.get((alike, http2))
        if context is None:
            context = self._contexts[alike, http2] = _context(alike, "h2" if http2 else "http/1.1")
        return context

    def keep(self, used: Iterable[Tls]) -> None:
        """Delete all other contexts."""
        kept = {_without_name(tls) for tls in used}
        self._contexts = {key: context for key, context in self._contexts.items() if key[0] in kept}

    def statistics(self) -> dict[str, int]:
        return {"contexts": len(self._contexts)}


def _without_name(tls: Tls) -> Tls:
    return Tls(tls.authorities, "", tls.is_verified)


def _context(tls: Tls, protocol: str) -> ssl.SSLContext:
    context = http_clients.verifying(ssl.create_default_context(cadata=tls.authorities or None))
    context.set_alpn_protocols([protocol])
    if not tls.is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
