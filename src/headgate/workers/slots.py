"""The places of workers, and which listening sockets the worker of each place accepts on."""

from __future__ import annotations

from collections.abc import Iterator

from headgate.workers.process import WorkerProcess
from headgate.workers.sockets import Sockets


class Slot:
    """The place of one worker, whichever process fills it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.worker: WorkerProcess | None = None
        """The serving worker."""
        self.successor: WorkerProcess | None = None
        """The worker that is starting."""
        self.restarts = 0


class Slots:
    """All places, as many as the settings have workers."""

    def __init__(self, count: int) -> None:
        self._slots = [Slot(number) for number in range(count)]
        self._is_open = True
        """Whether connections are accepted."""

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def serving(self) -> list[WorkerProcess]:
        return [slot.worker for slot in self._slots if slot.worker is not None]

    @property
    def starting(self) -> list[WorkerProcess]:
        return [slot.successor for slot in self._slots if slot.successor is not None]

    def adopt(self, worker: WorkerProcess) -> bool:
        """Keep a worker of the previous supervisor in its slot; False if there is none any more."""
        if not self.has_place_for(worker):
            return False
        self._slots[worker.slot].worker = worker
        return True

    def has_place_for(self, worker: WorkerProcess) -> bool:
        return worker.slot < len(self._slots)

    def vacate(self, worker: WorkerProcess) -> None:
        """The worker has ended."""
        for slot in self._slots:
            if slot.worker is worker:
                slot.worker = None

    def close(self) -> None:
        """Assign no sockets any more."""
        self._is_open = False

    def assign(self, sockets: Sockets, *, even_if_not_ready: bool) -> None:
        """Assign every listening socket to the worker of its slot, or to another while there is none.

        If no worker is ready, connections wait in the queues of the sockets, or a worker that is not ready
        gets them.
        """
        if not self._is_open:
            return
        able_to_serve = self.serving
        if not able_to_serve and even_if_not_ready:
            able_to_serve = self.starting
        shares: dict[WorkerProcess, list[int]] = {worker: [] for worker in able_to_serve}
        for place, sock in enumerate(sockets.api):
            slot = self._slots[place % len(self._slots)]
            able = [worker for worker in able_to_serve if sock.fileno() in worker.listeners]
            if able:
                own = slot.worker or slot.successor
                shares[own if own in able else able[place % len(able)]].append(sock.fileno())
                sockets.listen(sock)
        for worker, share in shares.items():
            worker.serve(share)
