"""The name in the certificate of a client, which its CA vouches for."""

from __future__ import annotations

from typing import Any

_KINDS = ("URI", "DNS", "email")
"""Kinds of alternative names, the preferred first: workloads have URIs (SPIFFE)."""


def name_of(tls: Any) -> str:
    """The name in the verified certificate of a client: an alternative name, or else the common name; "" if
    it has none, or has sent no certificate. `tls`: the `ssl_object` of its transport, or None."""
    certificate = tls.getpeercert() if tls is not None else None
    if not certificate:
        return ""
    names = certificate.get("subjectAltName", ())
    for wanted in _KINDS:
        for kind, value in names:
            if kind.lower() == wanted.lower():
                return str(value)
    for parts in certificate.get("subject", ()):
        for key, value in parts:
            if key == "commonName":
                return str(value)
    return ""
