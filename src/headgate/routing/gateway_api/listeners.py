"""Listeners of the Gateways of Headgate's class: which are served, and what is wrong with the others.

A Gateway is served at its own addresses, or else at those of Headgate's gateways, which all such Gateways
share. Listeners of several Gateways at the same place, with the same host name, serve each other's routes.
Only what one port cannot have is a conflict between Gateways: HTTP and HTTPS.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from headgate import api
from headgate.api import gateways, reference_grants
from headgate.api.reference_grants import End, Reference, ReferenceGrant
from headgate.routing.gateway_api import certificates, faults
from headgate.routing.gateway_api.certificates import Certificate
from headgate.routing.gateway_api.faults import Fault

HTTP, HTTPS = "HTTP", "HTTPS"
ROUTE_KINDS: Final[tuple[str, ...]] = ("HTTPRoute",)
"""The kinds of routes that listeners of both protocols take."""


class Place(NamedTuple):
    """Where connections are accepted."""

    address: str
    """An IP address; empty for those that the gateway itself listens on."""
    port: int


class ListenerState(msgspec.Struct, frozen=True):
    """One listener of a Gateway."""

    gateway: api.ObjectKey
    spec: gateways.Listener
    faults: tuple[Fault, ...] = ()
    kinds: tuple[str, ...] = ROUTE_KINDS
    """The kinds of routes that may attach; empty if it names none that is supported."""
    certificates: tuple[Certificate, ...] = ()
    addresses: tuple[str, ...] = ("",)
    """IP addresses that it is served at; an empty one stands for those of the gateway."""

    @property
    def places(self) -> list[Place]:
        """Where it is served."""
        return [Place(address, self.spec.port) for address in self.addresses]

    @property
    def hostname(self) -> str:
        """The host name, empty for any."""
        return (self.spec.hostname or "").lower()

    @property
    def is_https(self) -> bool:
        return self.spec.protocol == HTTPS

    @property
    def is_accepted(self) -> bool:
        """Whether routes may attach."""
        return not any(fault.condition in (faults.ACCEPTED, faults.CONFLICTED) for fault in self.faults)

    @property
    def is_served(self) -> bool:
        """Whether requests may come in by it: it is accepted, and with HTTPS it has a certificate."""
        return self.is_accepted and (not self.is_https or bool(self.certificates))


def states(
    found: Iterable[api.Gateway],
    secrets: Mapping[api.ObjectKey, api.Secret],
    grants: Collection[ReferenceGrant],
    *,
    taken: Collection[Place] = (),
    are_assigned: bool = False,
) -> dict[api.ObjectKey, tuple[ListenerState, ...]]:
    """The listeners of Gateways of Headgate's class, in their order. `taken`: where Headgate itself
    listens. `are_assigned`: whether Gateways that name no address have those of their status."""
    ordered = sorted(found, key=lambda gateway: gateway.metadata.age_order)
    protocols: dict[Place, str] = {}
    """The protocol of each place, which is up to the oldest Gateway there."""
    made = {}
    for gateway in ordered:
        addresses = addresses_of(gateway, are_assigned=are_assigned)
        conflicts = _conflicts(gateway.spec.listeners)
        states_ = []
        for listener in gateway.spec.listeners:
            places = [Place(address, listener.port) for address in addresses]
            found_faults = [
                *_unsupported(listener, [own.port for own in taken if _overlaps(own.address, addresses)]),
                *conflicts.get(listener.name, ()),
            ]
            others = {protocols.setdefault(place, listener.protocol) for place in places if not found_faults}
            if others - {listener.protocol}:
                told = f"port {listener.port} serves {', '.join(others)} for an older Gateway"
                found_faults = [Fault(faults.CONFLICTED, faults.PROTOCOL_CONFLICT, told)]
            state = _state(gateway, listener, found_faults, secrets, grants)
            states_.append(msgspec.structs.replace(state, addresses=addresses))
        made[gateway.metadata.key] = tuple(states_)
    return made


def addresses_of(gateway: api.Gateway, *, are_assigned: bool) -> tuple[str, ...]:
    """The IP addresses that a Gateway is served at: those that it names, else those of its status if they are
    assigned there, else an empty one for those of the gateway."""
    named = [each for each in gateway.spec.addresses if each.value]
    if not named and are_assigned:
        named = gateway.status.addresses if gateway.status is not None else []
    elif not named:
        return ("",)
    texts = (_ip(each.value) for each in named if each.type == "IPAddress")
    return tuple(dict.fromkeys(text for text in texts if text))


def _overlaps(own: str, addresses: Iterable[str]) -> bool:
    """Whether a listener of Headgate's own at this host may get connections for one of these addresses.
    Sockets of one port share it, and those with the more precise address get its connections."""
    if _ip(own) == "":
        own = "127.0.0.1"  # a name, such as localhost
    for text in addresses:
        if not text:
            return True
        both = [ipaddress.ip_address(each) for each in (own, text)]
        both = [getattr(each, "ipv4_mapped", None) or each for each in both]
        if both[0] == both[1] or any(each.is_unspecified for each in both):
            return True
    return False


def _ip(text: str) -> str:
    """The address in its usual form; empty if it is none."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


def named_secrets(found: Iterable[api.Gateway]) -> set[api.ObjectKey]:
    """The Secrets that listeners refer to, whether or not they may."""
    return {
        api.ObjectKey(ref.namespace or gateway.metadata.namespace, ref.name)
        for gateway in found
        for listener in gateway.spec.listeners
        if listener.tls is not None
        for ref in listener.tls.certificate_refs
        if (ref.group, ref.kind) == ("", "Secret")
    }


def _unsupported(listener: gateways.Listener, taken: Collection[int]) -> list[Fault]:
    if listener.protocol not in (HTTP, HTTPS):
        told = f"protocol {listener.protocol!r} is neither HTTP nor HTTPS"
        return [Fault(faults.ACCEPTED, faults.UNSUPPORTED_PROTOCOL, told)]
    if listener.port in taken:
        told = f"Headgate itself listens on port {listener.port}: use another port"
        return [Fault(faults.ACCEPTED, faults.PORT_UNAVAILABLE, told)]
    return []


def _conflicts(listeners: Iterable[gateways.Listener]) -> dict[str, list[Fault]]:
    """The conflicts among the listeners of one Gateway, of which none may win."""
    by_port: dict[int, list[gateways.Listener]] = {}
    for listener in listeners:
        by_port.setdefault(listener.port, []).append(listener)
    found: dict[str, list[Fault]] = {}
    for port, sharing in by_port.items():
        protocols = sorted({each.protocol for each in sharing})
        for listener in sharing:
            if len(protocols) > 1:
                told = f"port {port} has listeners of protocols {' and '.join(protocols)}"
                found[listener.name] = [Fault(faults.CONFLICTED, faults.PROTOCOL_CONFLICT, told)]
                continue
            same = [each.name for each in sharing if _host(each) == _host(listener)]
            if len(same) > 1:
                told = f"listeners {', '.join(same)} have the same port {port} and host name"
                found[listener.name] = [Fault(faults.CONFLICTED, faults.HOSTNAME_CONFLICT, told)]
    return found


def _host(listener: gateways.Listener) -> str:
    return (listener.hostname or "").lower()


def _state(
    gateway: api.Gateway,
    listener: gateways.Listener,
    found: list[Fault],
    secrets: Mapping[api.ObjectKey, api.Secret],
    grants: Collection[ReferenceGrant],
) -> ListenerState:
    kinds: tuple[str, ...] = ROUTE_KINDS
    if allowed := listener.allowed_routes.kinds:
        supported = [
            each.kind for each in allowed if each.group == reference_grants.GROUP and each.kind in ROUTE_KINDS
        ]
        kinds = tuple(dict.fromkeys(supported))
        if len(supported) < len(allowed):
            told = f"allowedRoutes.kinds has kinds other than {', '.join(ROUTE_KINDS)}"
            found = [*found, Fault(faults.RESOLVED_REFS, faults.INVALID_ROUTE_KINDS, told)]
    if listener.protocol not in (HTTP, HTTPS):
        kinds = ()
    served: list[Certificate] = []
    if listener.protocol == HTTPS:
        for made in _certificates(gateway, listener, secrets, grants):
            if isinstance(made, Fault):
                found = [*found, made]
            else:
                served.append(made)
    return ListenerState(gateway.metadata.key, listener, tuple(found), kinds, tuple(served))


def _certificates(
    gateway: api.Gateway,
    listener: gateways.Listener,
    secrets: Mapping[api.ObjectKey, api.Secret],
    grants: Collection[ReferenceGrant],
) -> list[Certificate | Fault]:
    tls = listener.tls
    if tls is None or not tls.certificate_refs:
        told = "an HTTPS listener needs tls.certificateRefs"
        return [Fault(faults.RESOLVED_REFS, faults.INVALID_CERTIFICATE_REF, told)]
    if tls.mode != "Terminate":
        told = f"tls.mode {tls.mode} is not supported: use Terminate"
        return [Fault(faults.ACCEPTED, faults.UNSUPPORTED_PROTOCOL, told)]
    metadata = gateway.metadata
    source = End(reference_grants.GROUP, "Gateway", metadata.namespace, metadata.name)
    made: list[Certificate | Fault] = []
    for ref in tls.certificate_refs:
        key = api.ObjectKey(ref.namespace or metadata.namespace, ref.name)
        reference = Reference(source, End(ref.group, ref.kind, key.namespace, key.name))
        if (ref.group, ref.kind) != ("", "Secret"):
            told = f"{ref.kind} of group {ref.group!r} is not supported: refer to a Secret"
            made.append(Fault(faults.RESOLVED_REFS, faults.INVALID_CERTIFICATE_REF, told))
        elif not reference.is_allowed(grants):
            made.append(Fault(faults.RESOLVED_REFS, faults.REF_NOT_PERMITTED, reference.refusal()))
        else:
            try:
                made.append(certificates.read(key, secrets.get(key)))
            except certificates.InvalidCertificateError as error:
                made.append(Fault(faults.RESOLVED_REFS, faults.INVALID_CERTIFICATE_REF, str(error)))
    return made
