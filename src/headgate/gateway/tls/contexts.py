"""The TLS context of a port, and the certificate for each handshake by the host name asked for (SNI)."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from headgate.gateway.tls.certificates import Loaded, Pair
from headgate.routing.gateway_api import HostTable

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2, unless told otherwise: forward secrecy and authenticated encryption only."""
HTTP2: Final = "h2"
HTTP1: Final = "http/1.1"
MAX_NAMES: Final = 1024
"""Host names for which the choice of certificates is remembered: clients choose them."""


class Policy(msgspec.Struct, frozen=True):
    """What handshakes require."""

    min_version: Literal["1.2", "1.3"] = "1.2"
    ciphers: str = ""
    """Of TLS 1.2, as OpenSSL lists them; empty for `CIPHERS`."""
    http2: bool = True
    """Whether HTTP/2 is offered."""
    client_authorities: str = ""
    """PEM certificates that sign those of clients."""
    client_certificates: Literal["off", "optional", "required"] = "off"

    def context(self) -> ssl.SSLContext:
        """A context without certificates. Raises ssl.SSLError for invalid ciphers or authorities."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        newest, least = ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2
        context.minimum_version = newest if self.min_version == "1.3" else least
        context.set_ciphers(self.ciphers or CIPHERS)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.set_alpn_protocols([HTTP2, HTTP1] if self.http2 else [HTTP1])
        if self.client_certificates != "off":
            context.load_verify_locations(cadata=self.client_authorities)
            is_required = self.client_certificates == "required"
            context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
        return context


class ServerNames:
    """The context of one port. Certificates may change while it serves: connections keep theirs."""

    def __init__(self, policy: Policy) -> None:
        """Raises ssl.SSLError, as `Policy.context` does."""
        self.context = policy.context()
        self.context.sni_callback = self._choose
        self._policy = policy
        self._made: dict[tuple[Pair, ...], ssl.SSLContext] = {}
        self._chosen: dict[str, ssl.SSLContext | None] = {}
        """By the host name asked for; "" without one."""
        self._by_host: HostTable[tuple[Loaded, ...]] = HostTable({})
        self._default: tuple[Loaded, ...] = ()

    def use(self, by_host: Mapping[str, tuple[Loaded, ...]]) -> None:
        """Serve these certificates from now on, by host name: "" is any, and the first is for clients that
        ask for none."""
        self._by_host = HostTable(dict(by_host))
        self._default = next(iter(by_host.values()), ())
        self._chosen = {}
        pairs = {each.pair for loaded in by_host.values() for each in loaded}
        self._made = {key: made for key, made in self._made.items() if pairs.issuperset(key)}

    def _choose(self, connection: Any, name: str | None, _: ssl.SSLContext) -> int | None:
        """Set the certificates of a handshake."""
        asked = name.lower() if name else ""
        if asked in self._chosen:
            found = self._chosen[asked]
        else:
            if len(self._chosen) >= MAX_NAMES:
                self._chosen.clear()
            found = self._chosen[asked] = self._context_for(asked)
        if found is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = found
        return None

    def _context_for(self, name: str) -> ssl.SSLContext | None:
        loaded = (self._by_host.find(name) if name else None) or (() if name else self._default)
        if not loaded:
            return None
        names = loaded[0].names
        fitting = [each for each in loaded if (each.covers(name) if name else each.names == names)]
        # A context has one certificate of each kind of key; the first of a kind takes precedence.
        of_kind = {each.key_kind: each for each in reversed(fitting or loaded[:1])}
        key = tuple(each.pair for each in of_kind.values())
        context = self._made.get(key)
        if context is None:
            from headgate.serving import certificates  # takes megabytes that gateways without TLS never need

            context = self._made[key] = self._policy.context()
            for pair in key:
                certificates.load(context, certificates.Issued(b"", pair.chain, pair.private_key))
        return context
