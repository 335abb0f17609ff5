"""Prepares TLS contexts for HTTP/2, of servers and of clients."""

from __future__ import annotations

import ssl

ALPN = "h2"


def for_server(context: ssl.SSLContext) -> ssl.SSLContext:
    """Let a context with its certificate serve HTTP/2. Returns the same context."""
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    context.set_alpn_protocols([ALPN])
    return context


def for_client(ca_pem: str | None) -> ssl.SSLContext:
    """A context for connections to servers whose certificates this CA has issued; with None, any is accepted.

    Endpoint pickers have self-signed certificates, which proxies do not verify.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_pem is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(cadata=ca_pem)
    context.set_alpn_protocols([ALPN])
    return context
