"""Which addresses Gateways have.

A Gateway may name its addresses. The others share those of Headgate's gateways, or, with a range, each gets
an address of its own there: then Gateways with the same port are kept apart. An address is kept as long as
the Gateway exists, since its status has it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from headgate import api
from headgate.api.gateways import Gateway, GatewayAddress

IP_ADDRESS, HOSTNAME = "IPAddress", "Hostname"
MAX_ADDRESSES = 16
"""How many a status may have."""

Range = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressError(ValueError):
    """A value of the command line is neither an address nor a range."""


class AddressSource(msgspec.Struct, frozen=True):
    """Where Gateways that name no address get theirs from."""

    shared: Sequence[str] = ()
    """IP addresses or host names of Headgate's gateways."""
    range: Range | None = None
    """Addresses of which each Gateway gets one. It takes precedence."""
    inside: Sequence[str] = ()
    """Addresses that lead to the same gateways as the shared ones, for programs in the cluster."""


def parsed(values: Iterable[str]) -> AddressSource:
    """Reads values of the command line: addresses, or one range, such as 10.0.8.0/24. Raises AddressError."""
    shared = []
    ranges: list[Range] = []
    for value in values:
        if "/" in value:
            try:
                ranges.append(ipaddress.ip_network(value))
            except ValueError as error:
                raise AddressError(f"{value!r} is not a range of addresses: {error}") from error
        elif _type_of(value) == HOSTNAME and not _is_hostname(value):
            raise AddressError(f"{value!r} is not an IP address, a host name, or a range such as 10.0.8.0/24")
        else:
            shared.append(value)
    if len(ranges) > 1 or (ranges and shared):
        raise AddressError("write either addresses that all Gateways share, or one range")
    return AddressSource(shared, ranges[0] if ranges else None)


def of_service(service: api.Service) -> AddressSource:
    """The addresses by which clients reach a Service: those of its load balancer, or else of the cluster. A
    load balancer may be out of reach from inside."""
    found = service.spec.get("clusterIPs") or [service.spec.get("clusterIP")]
    inside = [str(each) for each in found if each and each != "None"]
    if service.spec.get("type") != "LoadBalancer":
        return AddressSource(inside)
    entries = (service.status.get("loadBalancer") or {}).get("ingress") or ()
    outside = [str(each.get("ip") or each.get("hostname") or "") for each in entries]
    return AddressSource([each for each in outside if each], inside=inside)


def requested(gateway: Gateway) -> list[GatewayAddress]:
    """The addresses that the Gateway names and can have. One without a value asks for any."""
    found = gateway.spec.addresses
    return [each for each in found if each.value and each.type == IP_ADDRESS and _is_ip(each.value)]


def unsupported(gateway: Gateway) -> list[GatewayAddress]:
    """The addresses that it names and that it cannot have: only IP addresses can be listened on."""
    return [each for each in gateway.spec.addresses if each.type != IP_ADDRESS or not _can_be(each.value)]


def assigned(
    gateways: Iterable[Gateway], source: AddressSource
) -> Mapping[api.ObjectKey, list[GatewayAddress]]:
    """The addresses of all Gateways. Without a source, or when the range is used up, there are none."""
    gateways = sorted(gateways, key=lambda each: each.metadata.age_order)
    found = {each.metadata.key: requested(each)[:MAX_ADDRESSES] for each in gateways}
    unnamed = [each for each in gateways if not found[each.metadata.key]]
    if source.range is None:
        shared = [_address(value) for value in source.shared[:MAX_ADDRESSES]]
        return found | {each.metadata.key: shared for each in unnamed}
    taken = {address.value for addresses in found.values() for address in addresses}
    for each in unnamed:
        if (kept := _kept(each, source.range)) is not None and kept not in taken:
            taken.add(kept)
            found[each.metadata.key] = [_address(kept)]
    free = (str(each) for each in source.range.hosts())
    for each in unnamed:
        if not found[each.metadata.key]:
            value = next((value for value in free if value not in taken), None)
            found[each.metadata.key] = [_address(value)] if value is not None else []
    return found


def hosts(gateway: Gateway, given: Iterable[GatewayAddress], source: AddressSource) -> list[str]:
    """Where the controller reaches a Gateway that has been given these addresses."""
    values = [each.value for each in given]
    is_shared = source.range is None and not requested(gateway)
    return list(source.inside) if is_shared and values and source.inside else values


def _kept(gateway: Gateway, within: Range) -> str | None:
    """The address of the range that its status has."""
    for each in gateway.status.addresses if gateway.status is not None else ():
        if each.type == IP_ADDRESS and _is_ip(each.value) and ipaddress.ip_address(each.value) in within:
            return each.value
    return None


def _address(value: str) -> GatewayAddress:
    return GatewayAddress(type=_type_of(value), value=value)


def _type_of(value: str) -> str:
    return IP_ADDRESS if _is_ip(value) else HOSTNAME


def _is_ip(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _can_be(value: str) -> bool:
    return not value or _is_ip(value)


def _is_hostname(value: str) -> bool:
    labels = value.split(".")
    return len(value) <= 253 and all(
        label and label.isascii() and label.replace("-", "").isalnum() for label in labels
    )
