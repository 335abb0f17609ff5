"""Pod addresses on one machine: a separate address of a range, or a port of the shared one.

All Pods of a pool listen on the pool's port, so each needs its own address. Linux supports all of 127.0.0.0/8
without setup. On systems that do not (macOS), every Pod gets 127.0.0.1 and its own port, stored in the
annotation `headgate.dev/port`. In a cluster, where Services must not have loopback addresses, the machine's
administrator provides a range.
"""

import contextlib
import errno
import ipaddress
import socket
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

NETWORK = ipaddress.IPv4Network("127.64.0.0/16")
SHARED_ADDRESS = "127.0.0.1"
_BLOCK = 256
_CLAIM_PORT = 6440

IsFree = Callable[[str], bool]


class AddressesExhaustedError(Exception):
    """Every address of the network is held by a Pod or used by another program."""


@dataclass(frozen=True)
class AddressStatistics:
    held: int
    size: int
    allocated_total: int


class AddressPool:
    """Allocates the addresses of a network, each to one holder (a Pod's uid) at a time.

    Addresses are allocated in sequence through the whole network, so that a released one stays unused for as
    long as possible: a late packet or a cached connection of the previous holder must not reach the next one.
    """

    def __init__(self, network: ipaddress.IPv4Network = NETWORK, first_block: int = 0) -> None:
        self._network = network
        self._base = int(network.network_address)
        self._next = (first_block * _BLOCK) % network.num_addresses
        self._by_holder: dict[str, str] = {}
        self._held: set[str] = set()
        self._allocated = 0

    def allocate(self, holder: str, is_free: IsFree = lambda _: True) -> str:
        """The holder's address, allocated if it has none. Raises AddressesExhaustedError."""
        known = self._by_holder.get(holder)
        if known is not None:
            return known
        for _ in range(self._network.num_addresses):
            address = self._advance()
            if address is not None and address not in self._held and is_free(address):
                self._hold(holder, address)
                self._allocated += 1
                return address
        raise AddressesExhaustedError(f"no address of {self._network} is free for another Pod")

    def reserve(self, holder: str, address: str) -> bool:
        """Take an address that a Pod had before; False if it is outside the network or held by another."""
        if not self._gives(address) or address in self._held:
            return self._by_holder.get(holder) == address
        if holder in self._by_holder:
            return False
        self._hold(holder, address)
        # Addresses given before a restart count as used: continue after them.
        offset = int(ipaddress.IPv4Address(address)) - self._base
        if offset // _BLOCK == self._next // _BLOCK:
            self._next = max(self._next, (offset + 1) % self._network.num_addresses)
        return True

    def release(self, holder: str) -> None:
        address = self._by_holder.pop(holder, None)
        if address is not None:
            self._held.discard(address)

    def statistics(self) -> AddressStatistics:
        return AddressStatistics(len(self._held), self._network.num_addresses, self._allocated)

    def _advance(self) -> str | None:
        """The next address, or None for one that looks like a network or broadcast address."""
        offset = self._next
        self._next = (self._next + 1) % self._network.num_addresses
        if offset % _BLOCK in (0, _BLOCK - 1):
            return None
        return str(ipaddress.IPv4Address(self._base + offset))

    def _gives(self, address: str) -> bool:
        try:
            return ipaddress.IPv4Address(address) in self._network
        except ValueError:
            return False

    def _hold(self, holder: str, address: str) -> None:
        self._by_holder[holder] = address
        self._held.add(address)


@contextlib.contextmanager
def claimed_block(state_directory: str, network: ipaddress.IPv4Network = NETWORK) -> Iterator[int]:
    """A 256-address block in which no other node of this machine begins, for the duration of the context.

    Two nodes that give the same address to starting Pods would each find it free, and one Pod could never
    listen. The claim is a socket on the block's last address, which no Pod gets. A state directory gets the
    same block each time, unless that one is claimed.
    """
    blocks = max(network.num_addresses // _BLOCK, 1)
    preferred = zlib.crc32(state_directory.encode()) % blocks
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as claim:
        for block in (*range(preferred, blocks), *range(preferred)):
            last = min((block + 1) * _BLOCK, network.num_addresses) - 1
            try:
                claim.bind((str(network[last]), _CLAIM_PORT))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    continue
            yield block
            return
        yield preferred


def is_local(network: ipaddress.IPv4Network = NETWORK) -> bool:
    """Whether sockets can be bound to the first and the last address of the network."""
    for address in (network[1], network[-2]):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((str(address), 0))
            except OSError:
                return False
    return True


def ports_are_free(address: str, ports: Sequence[int]) -> bool:
    """Whether these ports of an address are unused. Ports that this process may not bind are skipped."""
    for port in ports:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
    return True


def unused_port() -> int:
    """A port of the shared address that is currently unused."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((SHARED_ADDRESS, 0))
        port: int = probe.getsockname()[1]
        return port
