"""Admits the requests of authenticated clients, before anything of their bodies is read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from headgate.auth.outcome import EXPIRED, MISSING, Denial, Identity
from headgate.dataplane.credentials.refusals import refusal
from headgate.gateway.websocket import opening

if TYPE_CHECKING:
    from headgate.dataplane.trust import Peer
    from headgate.gateway.services import Services
    from headgate.requests.client import Header
    from headgate.requests.refusal import Refusal

PROBES: Final = (b"/healthz", b"/readyz", b"/health")
"""Served to everybody, as load balancers have no credentials."""
_READING: Final = (b"GET", b"HEAD")
_ASKED_METHOD: Final = b"access-control-request-method"


def admit(
    services: Services, method: bytes, target: bytes, headers: list[Header], peer: Peer
) -> Identity | Refusal | None:
    """The client of a request with this head, or why it is rejected; None if it needs no credentials. Removes
    accepted credentials from the headers. `target` is empty where no page is the gateway's own."""
    gate = services.credentials.gate
    if gate is None or (target and _is_open(services, method, target, headers)):
        return None
    found = gate.admit(headers, peer.certificate, time.time())
    if found is MISSING and (key := opening.key_in_protocols(headers)):
        found = gate.client_of(key, time.time())
    return found if isinstance(found, Identity) else rejected(services, found, headers)


def expired(services: Services, identity: Identity, headers: list[Header]) -> Refusal | None:
    """Why a client that was admitted before is so no longer."""
    return rejected(services, EXPIRED, headers) if identity.ends_at <= time.time() else None


def why_over(services: Services, identity: Identity | None, model: str | None) -> str:
    """Why a client that was admitted before may not go on with what it has opened, with this model or with
    none; empty if it may."""
    gate = services.credentials.gate
    if gate is None:
        return ""
    if identity is None:
        return "credentials are needed now"
    if identity.ends_at <= time.time():
        return "the credentials have expired"
    return "" if gate.still_allows(identity, model) else "the credentials are no longer valid"


def rejected(services: Services, denial: Denial, headers: list[Header]) -> Refusal:
    """The response for a client that is not admitted, which is counted."""
    services.recorder.denied(denial.code)
    return refusal(denial, headers)


def _is_open(services: Services, method: bytes, target: bytes, headers: list[Header]) -> bool:
    """Whether everybody gets a response: probes, and what browsers ask before they send credentials."""
    if target in PROBES:
        return method in _READING
    return (
        method == b"OPTIONS"
        and services.policy.cors is not None
        and any(name == _ASKED_METHOD for name, _ in headers)
    )
