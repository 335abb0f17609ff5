"""Kubernetes' CEL functions for quantities, addresses and URLs, represented as maps of one entry."""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Callable
from typing import Any, Final

from headgate.kubeschema import quantity
from headgate.kubeschema.quantity import Quantity

__all__ = ["ADDRESS_FUNCTIONS", "QUANTITY_FUNCTIONS"]

# Quantities: `quantity(self.memory).isLessThan(quantity("1Gi"))`.
#
# Inside an expression a quantity is a map with one entry, because the engine only passes plain values; two of
# the same number are equal, whatever their suffixes.
Packed = dict[str, str]

_ENTRY: Final = "quantity"
_INT64: Final = 1 << 63


def _packed(value: Quantity) -> Packed:
    return {_ENTRY: f"{value.unscaled}e{value.exponent}"}


def _unpacked(value: Packed | int) -> Quantity:
    """The quantity, or that of an integer, which `add` and `sub` accept as well."""
    if isinstance(value, int):
        return Quantity(value)
    unscaled, _, exponent = value[_ENTRY].partition("e")
    return Quantity(int(unscaled), int(exponent))


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except quantity.QuantityError:
        return False
    return True


def _is_integer(value: Packed) -> bool:
    found = _unpacked(value)
    return found.exponent >= 0 and -Quantity(_INT64) <= found < Quantity(_INT64)


def _as_integer(value: Packed) -> int:
    if not _is_integer(value):
        raise quantity.QuantityError("cannot convert value to integer")
    return _unpacked(value).rounded_up()


def _compared(left: Packed, right: Packed) -> int:
    one, other = _unpacked(left), _unpacked(right)
    return (one > other) - (one < other)


QUANTITY_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "quantity": lambda text: _packed(quantity.parse(text)),
    "isQuantity": _is_quantity,
    "isInteger": _is_integer,
    "asInteger": _as_integer,
    "asApproximateFloat": lambda value: float(_unpacked(value)),
    "sign": lambda value: _compared(value, _packed(Quantity(0))),
    "isLessThan": lambda left, right: _compared(left, right) < 0,
    "isGreaterThan": lambda left, right: _compared(left, right) > 0,
    "compareTo": _compared,
    "add": lambda left, right: _packed(_unpacked(left) + _unpacked(right)),
    "sub": lambda left, right: _packed(_unpacked(left) - _unpacked(right)),
}
"""By name; a method's receiver is the first argument. Exceptions become errors of the expression."""

# Addresses: `ip(self.host).isLoopback()`, `cidr(self.net).containsIP(...)`, `url(self.endpoint).getScheme()`.
#
# Inside an expression each is a map with one entry, because the engine only passes plain values; two
# spellings of the same address are equal.
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Block = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_PREFIX = re.compile(r"[^/%]+/(0|[1-9][0-9]{0,2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_IN_PATH: Final = "/%:@!$&'()*+,;=~"
_NOT_GLOBAL: Final = ipaddress.IPv4Address("255.255.255.255")


def _parsed_ip(text: str) -> Address:
    """The address. Like Kubernetes, it rejects zones and IPv4-mapped IPv6 addresses."""
    address = ipaddress.ip_address(text)
    if "%" in text:
        raise ValueError(f"IP address {text!r} with zone value is not allowed")
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {text!r} is not allowed")
    return address


def _parsed_cidr(text: str) -> Block:
    if not _PREFIX.fullmatch(text):
        raise ValueError(f"CIDR {text!r} must be an address and the length of its prefix: 10.0.0.0/8")
    _parsed_ip(text.partition("/")[0])
    return ipaddress.ip_interface(text)


def _parsed_url(text: str) -> urllib.parse.SplitResult:
    """A URL with a scheme, or an absolute path."""
    if _CONTROL.search(text) or _BAD_ESCAPE.search(text):
        raise ValueError(f"{text!r} has characters that no URL has")
    if not text.startswith("/") and not _SCHEME.match(text):
        raise ValueError(f"{text!r} is neither an absolute path nor begins with a scheme")
    parts = urllib.parse.urlsplit(text)
    if " " in parts.netloc:
        raise ValueError(f"{text!r} has a space in its host")
    _ = parts.port  # raises ValueError if it is not a number
    return parts


def _is(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return accepts


def _ip(value: str | Packed) -> Packed:
    """From text; or, as a method, from a CIDR."""
    address = _parsed_cidr(value["cidr"]).ip if isinstance(value, dict) else _parsed_ip(value)
    return {"ip": str(address)}


def _cidr(text: str) -> Packed:
    return {"cidr": str(_parsed_cidr(text))}


def _address(value: str | Packed) -> Address:
    return _parsed_ip(value["ip"] if isinstance(value, dict) else value)


def _block(value: str | Packed) -> Block:
    return _parsed_cidr(value["cidr"] if isinstance(value, dict) else value)


def _is_link_local_multicast(value: Packed) -> bool:
    address = _address(value)
    if address.version == 4:
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _is_global_unicast(value: Packed) -> bool:
    """As in Go's netip: private addresses are global too."""
    address = _address(value)
    return address != _NOT_GLOBAL and not (
        address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    )


def _contains_ip(block: Packed, value: str | Packed) -> bool:
    return _address(value) in _block(block).network


def _contains_cidr(block: Packed, value: str | Packed) -> bool:
    outer, inner = _block(block).network, _block(value).network
    is_longer = inner.prefixlen >= outer.prefixlen
    return inner.version == outer.version and is_longer and inner.network_address in outer


def _url(text: str) -> Packed:
    _parsed_url(text)
    return {"url": text}


def _of_url(part: Callable[[urllib.parse.SplitResult], Any]) -> Callable[[Packed], Any]:
    return lambda value: part(_parsed_url(value["url"]))


def _host(parts: urllib.parse.SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _hostname(parts: urllib.parse.SplitResult) -> str:
    host = _host(parts)
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _query(parts: urllib.parse.SplitResult) -> dict[str, list[str]]:
    return urllib.parse.parse_qs(parts.query, keep_blank_values=True)


ADDRESS_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "ip": _ip,
    "isIP": _is(_parsed_ip),
    "family": lambda value: _address(value).version,
    "isUnspecified": lambda value: _address(value).is_unspecified,
    "isLoopback": lambda value: _address(value).is_loopback,
    "isLinkLocalMulticast": _is_link_local_multicast,
    "isLinkLocalUnicast": lambda value: _address(value).is_link_local,
    "isGlobalUnicast": _is_global_unicast,
    "cidr": _cidr,
    "isCIDR": _is(_parsed_cidr),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "prefixLength": lambda value: _block(value).network.prefixlen,
    "masked": lambda value: _cidr(str(_block(value).network)),
    "url": _url,
    "isURL": _is(_parsed_url),
    "getScheme": _of_url(lambda parts: parts.scheme),
    "getHost": _of_url(_host),
    "getHostname": _of_url(_hostname),
    "getPort": _of_url(lambda parts: str(parts.port) if parts.port is not None else ""),
    "getEscapedPath": _of_url(lambda parts: urllib.parse.quote(parts.path, safe=_IN_PATH)),
    "getQuery": _of_url(_query),
}
"""By name; a method's receiver is the first argument. Exceptions become errors of the expression."""
