"""The identity of a client, and the headers about it for endpoints.

A trusted client, such as a load balancer, speaks for the clients behind it: its `x-forwarded-*` and
`forwarded` headers are forwarded with its own address appended, and its `x-headgate-*` and `x-gateway-*`
headers are accepted, except for `x-headgate-explain`, which only clients that are trusted themselves may
send. For any other client, these headers are replaced by what the gateway itself knows.

Only this module decides who is trusted: `Peer.is_trusted`, by the network of the connection, and `believes`,
for headers that a setting may open to everyone.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from headgate.auth.gate import Certificate

Header = tuple[bytes, bytes]
"""Lower-case name and value."""

Speakers: TypeAlias = Literal["anyone", "trusted"]
"""Who may send a header, as the value of a setting."""

_FOR: Final = re.compile(r'(?:^|[;,\s])for="?([^";,\s]+)', re.IGNORECASE)
_WITH_PORT: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::\d+)?|(\d+\.\d+\.\d+\.\d+):\d+")


def believes(speakers: Speakers, *, is_trusted: bool) -> bool:
    """Whether a header that only `speakers` may send is accepted from a client."""
    return is_trusted or speakers == "anyone"


class Networks:
    """Addresses, given as networks ("10.0.0.0/8") or single addresses ("2001:db8::7"). Raises ValueError."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._networks = tuple(ipaddress.ip_network(text) for text in texts)

    def __contains__(self, address: str) -> bool:
        if not self._networks:
            return False
        parsed = _parsed(address)
        return parsed is not None and any(parsed in network for network in self._networks)


def problems(networks: Iterable[str]) -> list[str]:
    """The errors in texts that are not networks."""
    found = []
    for text in networks:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            found.append(f"{error}: a network such as 10.0.0.0/8 or an address is needed")
    return found


class Peer:
    """The other end of a client connection: created once per connection, since it is the same for all
    requests."""

    __slots__ = ("_host", "_node", "_opening", "_trusted", "address", "certificate", "is_trusted", "scheme")

    def __init__(self, address: str, trusted: Networks, scheme: bytes = b"http") -> None:
        """`scheme`: of the connection, http or https."""
        self.address = address
        """Without its port; "" if unknown, as on Unix sockets."""
        self.is_trusted = address in trusted
        self.certificate: Certificate | None = None
        """The verified certificate of the client; whoever accepts connections with TLS sets it."""
        self._trusted = trusted
        self.scheme = scheme
        self._node = address.partition("%")[0].encode() or b"unknown"
        self._host: bytes | None = None
        self._opening = b""

    def opening(self, host: bytes, headers: list[Header]) -> bytes:
        """The rest of the request line, `host`, and the headers about the client, for an endpoint."""
        if self.is_trusted:
            return self._opening_behind(host, headers)
        if host != self._host:
            element = _element(self._node, host, self.scheme)
            self._opening = _opening(host, self._node, self.scheme, host, element)
            self._host = host
        return self._opening

    def client_address(self, headers: list[Header]) -> str:
        """The address of the client that sent a request: the last in the chain of proxies that is not
        trusted.

        An entry that is not an address ends the search: a client may have invented everything before it.
        """
        address = self.address
        if not self.is_trusted:
            return address
        for node in _nodes_from_last(headers):
            parsed = _parsed(node)
            if parsed is None:
                break
            address = str(parsed)
            if address not in self._trusted:
                break
        return address

    def trusts_client(self, headers: list[Header]) -> bool:
        """Whether the client itself is trusted, and every proxy between it and this connection: what a
        trusted proxy passes on may come from anybody."""
        return self.is_trusted and all(node in self._trusted for node in _nodes_from_last(headers))

    def _opening_behind(self, host: bytes, headers: list[Header]) -> bytes:
        """The headers of a trusted client about those behind it, with its own address appended.

        If it sends only one of the two kinds of headers, so does the gateway: the other would lack the
        earlier clients.
        """
        given_for = _joined(headers, b"x-forwarded-for")
        given = _joined(headers, b"forwarded")
        element = _element(self._node, host, self.scheme)
        if not given and not given_for:
            chain, element_chain = self._node, element
        else:
            chain = given_for + b", " + self._node if given_for else b""
            element_chain = given + b", " + element if given else b""
        proto = _joined(headers, b"x-forwarded-proto") or self.scheme
        named = _joined(headers, b"x-forwarded-host") or host
        return _opening(host, chain, proto, named, element_chain)


def _opening(host: bytes, chain: bytes, proto: bytes, named: bytes, elements: bytes) -> bytes:
    lines = [b" HTTP/1.1\r\nhost: ", host]
    if chain:
        lines += (b"\r\nx-forwarded-for: ", chain)
    lines += (b"\r\nx-forwarded-proto: ", proto)
    if named:
        lines += (b"\r\nx-forwarded-host: ", named)
    if elements:
        lines += (b"\r\nforwarded: ", elements)
    lines.append(b"\r\n")
    return b"".join(lines)


def _element(node: bytes, host: bytes, scheme: bytes) -> bytes:
    """One hop in the format of RFC 7239. The host was validated, so it needs no escapes."""
    named = b'"[%b]"' % node if b":" in node else node
    about = b'for=%b;host="%b"' % (named, host) if host else b"for=%b" % named
    return b"%b;proto=%b" % (about, scheme)


def _joined(headers: list[Header], wanted: bytes) -> bytes:
    values = [value.strip() for name, value in headers if name == wanted]
    return b", ".join(value for value in values if value)


def _nodes_from_last(headers: list[Header]) -> Iterator[str]:
    """The addresses of the chain of proxies, the nearest first, without their ports."""
    chain = _joined(headers, b"x-forwarded-for").decode("latin-1")
    nodes: list[str] = (
        chain.split(",") if chain else _FOR.findall(_joined(headers, b"forwarded").decode("latin-1"))
    )
    for node in reversed(nodes):
        plain = node.strip()
        with_port = _WITH_PORT.fullmatch(plain)
        yield (with_port[1] or with_port[2]) if with_port else plain


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """IPv4 addresses written as IPv6 count as IPv4."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed


def counted_as(address: str) -> str:
    """The address under which a client counts: for IPv6 its /64 network, which one host has as a whole."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
