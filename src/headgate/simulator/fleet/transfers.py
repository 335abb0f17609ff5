"""The link over which caches are handed over: all transfers of the moment share its bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headgate.simulator.fleet.timeline import Timeline


class Transfer:
    """One cache on its way."""

    __slots__ = ("arrived", "is_over", "left_bytes")

    def __init__(self, size_bytes: float, arrived: Callable[[], None]) -> None:
        self.left_bytes = size_bytes
        self.arrived = arrived
        self.is_over = False


class SharedLink:
    """Each of n transfers gets an n-th of the bandwidth, from one beginning or end to the next."""

    def __init__(self, timeline: Timeline, bytes_per_s: float, latency_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self.latency_s = latency_s
        self.bytes_total = 0.0
        self._timeline = timeline
        self._active: list[Transfer] = []
        self._settled_s = 0.0
        self._change = 0

    def begin(self, size_bytes: float, arrived: Callable[[], None]) -> Transfer:
        """Sends so many bytes; `arrived` is called at their end, unless the transfer is given up before."""
        transfer = Transfer(size_bytes, arrived)
        self._timeline.at(self._timeline.now + self.latency_s, partial(self._join, transfer))
        return transfer

    def give_up(self, transfer: Transfer) -> None:
        """One side is gone: the others share what it took. Twice is harmless."""
        transfer.is_over = True
        if transfer in self._active:
            self._settle()
            self._active.remove(transfer)
            self._plan()

    def _join(self, transfer: Transfer) -> None:
        if transfer.is_over:
            return
        self._settle()
        self._active.append(transfer)
        self._plan()

    def _settle(self) -> None:
        """Takes off what was sent since the last change."""
        now = self._timeline.now
        if self._active:
            sent = (now - self._settled_s) * self.bytes_per_s / len(self._active)
            for transfer in self._active:
                self.bytes_total += min(sent, transfer.left_bytes)
                transfer.left_bytes = max(transfer.left_bytes - sent, 0.0)
        self._settled_s = now

    def _plan(self) -> None:
        """The next end, as long as nothing changes."""
        self._change += 1
        if self._active:
            first = min(self._active, key=lambda transfer: transfer.left_bytes)
            wait_s = first.left_bytes * len(self._active) / self.bytes_per_s
            self._timeline.at(self._timeline.now + wait_s, partial(self._end, first, self._change))

    def _end(self, transfer: Transfer, change: int) -> None:
        if change != self._change:
            return  # what is sent has changed since this was planned
        self._settle()
        self.bytes_total += transfer.left_bytes  # what rounding left
        transfer.is_over = True
        self._active.remove(transfer)
        self._plan()
        transfer.arrived()
