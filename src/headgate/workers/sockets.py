"""The listening sockets of a gateway: opened once, and kept open when workers end and across upgrades.

A connection that the kernel has accepted is in the queue of one of them. As long as the supervisor keeps the
socket open, the connection waits there for the next worker that accepts on it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import resource
import socket
from collections.abc import Iterator

import msgspec

from headgate import serving
from headgate.gateway.settings import GatewaySettings

PER_WORKER_DESCRIPTORS = 4
"""Both ends of the channel, a copy of one for an upgrade, and a pidfd."""
RESERVED_DESCRIPTORS = 16
PAGE_DESCRIPTORS = 256
"""For connections to the two pages, and other open files of the process."""


_USES = {
    "api": serving.Use("the inference API", "listen.host (--host)", "listen.port (--port)"),
    "metrics": serving.Use(
        "the metrics page", "metrics.host (--metrics-host)", "metrics.port (--metrics-port)"
    ),
    "admin": serving.Use("the admin page", "admin.host (--admin-host)", "admin.port (--admin-port)"),
}


class Reserve:
    """Descriptors kept free for workers, no matter how many clients connect to the supervisor's own ports.

    They are open all the time, and closed only while the supervisor needs some.
    """

    def __init__(self, workers: int) -> None:
        self._count = RESERVED_DESCRIPTORS + workers
        self._held: list[int] = []
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = self._count + PER_WORKER_DESCRIPTORS * workers + PAGE_DESCRIPTORS
        if soft < needed and soft != resource.RLIM_INFINITY:
            most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        self.refill()

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """The block may open this many files. It must not wait, or other code would take the descriptors."""
        self.close()
        try:
            yield
        finally:
            self.refill()

    def refill(self) -> None:
        """Take free descriptors, for instance after a worker has ended."""
        with contextlib.suppress(OSError):
            while len(self._held) < self._count:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop())


class HandedOver(msgspec.Struct, frozen=True):
    """An open listening socket by its descriptor, with host and port as configured."""

    use: str
    host: str
    port: int
    descriptor: int


class Sockets:
    """The API's sockets, one per worker, those of the two pages, and reserved descriptors."""

    def __init__(self, settings: GatewaySettings, handed_over: list[HandedOver]) -> None:
        """Open the sockets that were not handed over. On failure, raises OSError with the address, and keeps
        those that were handed over open."""
        self._known: dict[tuple[str, str, int], list[socket.socket]] = {}
        """By use and configured address; with port 0, the system chooses the port."""
        for each in handed_over:
            sock = socket.socket(fileno=each.descriptor)
            self._known.setdefault((each.use, each.host, each.port), []).append(sock)
        try:
            self.api = self._open("api", settings.listen.host, settings.listen.port, settings.workers.count)
            (self.metrics,) = self._open("metrics", settings.metrics.host, settings.metrics.port)
            (self.admin,) = self._open("admin", settings.admin.host, settings.admin.port)
        except OSError:
            past = {each.descriptor for each in handed_over}
            for sock in itertools.chain(*self._known.values()):
                if sock.fileno() in past:
                    sock.detach()
                else:
                    sock.close()
            raise
        for sock in self.api:
            os.set_inheritable(sock.fileno(), True)  # workers inherit them
        self.reserve = Reserve(settings.workers.count)
        used = {*self.api, self.metrics, self.admin}
        for address, socks in list(self._known.items()):
            self._known[address] = [sock for sock in socks if sock in used]
            for sock in set(socks) - used:
                sock.close()

    def _open(self, use: str, host: str, port: int, count: int = 1) -> list[socket.socket]:
        """At least `count` sockets for an address; extra ones are kept, with the connections in their
        queues."""
        socks = self._known.setdefault((use, host, port), [])
        while len(socks) < count:
            if socks:
                host, port = socks[0].getsockname()[:2]
            elif port:
                # Any other gateway of this user could also bind a shared port. Binding exclusively first
                # fails if another process is listening.
                serving.listening_socket(host, port, use=_USES[use]).close()
            socks.append(serving.listening_socket(host, port, shared=use == "api", use=_USES[use]))
        return socks

    def listen(self, sock: socket.socket) -> None:
        """Let the kernel accept connections; may be repeated."""
        sock.listen(serving.BACKLOG)

    def close(self) -> None:
        self.reserve.close()
        for socks in self._known.values():
            for sock in socks:
                sock.close()

    def close_api(self) -> None:
        """Let the kernel refuse connections, once no worker has the sockets open either."""
        for sock in self.api:
            sock.close()

    def hand_over(self) -> list[HandedOver]:
        """All sockets, marked to stay open across exec."""
        found = []
        for (use, host, port), socks in self._known.items():
            for sock in socks:
                os.set_inheritable(sock.fileno(), True)
                found.append(HandedOver(use, host, port, sock.fileno()))
        return found


def url(sock: socket.socket, scheme: str = "http") -> str:
    """Its URL, with the port that the system chose."""
    host, port = sock.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
