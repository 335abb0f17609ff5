"""Whether clients need credentials, and which tokens are accepted, by all settings together."""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple

from headgate.auth.tokens import Issuer
from headgate.dataplane.settings.auth import Auth

KTHENA = "auth"
"""The section of Kthena's router configuration."""


class Trusted(NamedTuple):
    """An issuer of tokens, and where its public keys are."""

    issuer: Issuer
    keys: str


def trusted(auth: Auth, content: dict[str, Any] | None) -> Trusted | None:
    """Whose tokens are accepted. `content`: that of a scheduler's configuration file, which may be Kthena's;
    its section counts unless the settings name an issuer."""
    if auth.mode == "off":
        return None
    if auth.jwt_keys:
        issuer = Issuer(name=auth.jwt_issuer, audiences=auth.jwt_audiences, claim=auth.jwt_tenant_claim)
        return Trusted(issuer, auth.jwt_keys)
    section = content.get(KTHENA) if content is not None else None
    if not isinstance(section, dict) or not section:
        return None
    audiences = tuple(section.get("audiences") or ())
    return Trusted(Issuer(name=section.get("issuer") or "", audiences=audiences), section["jwksUri"])


def are_required(auth: Auth, content: dict[str, Any] | None) -> bool:
    """Whether the inference API needs credentials."""
    return auth.is_on or trusted(auth, content) is not None


def is_open(host: str, auth: Auth, content: dict[str, Any] | None) -> bool:
    """Whether others than this machine may use the gateway without credentials, and nobody said so."""
    return auth.mode != "off" and not is_loopback(host) and not are_required(auth, content)


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
