"""The link for KV cache transfers: all current transfers share its bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headgate.simulator.fleet.timeline import Timeline


class Transfer:
    """One cache in transfer."""

    __slots__ = ("arrived", "is_over", "left_bytes")

    def __init__(self, size_bytes: float, arrived: Callable[[], None]) -> None:
        self.left_bytes = size_bytes
        self.arrived = arrived
        self.is_over = False


class SharedLink:
    """Each of n transfers gets 1/n of the bandwidth, until the next one begins or ends."""

    def __init__(self, timeline: Timeline, bytes_per_s: float, latency_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self.latency_s = latency_s
        self.bytes_total = 0.0
        self._timeline = timeline
        self._active: list[Transfer] = []
        self._settled_s = 0.0
        self._change = 0

    def begin(self, size_bytes: float, arrived: Callable[[], None]) -> Transfer:
        """Send `size_bytes`; calls `arrived` at the end, unless the transfer is cancelled."""
        transfer = Transfer(size_bytes, arrived)
        self._timeline.at(self._timeline.now + self.latency_s, partial(self._join, transfer))
        return transfer

    def give_up(self, transfer: Transfer) -> None:
        """Cancel a transfer, which leaves its bandwidth to the others. May be called twice."""
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
        """Deduct the bytes sent since the last change."""
        now = self._timeline.now
        if self._active:
            sent = (now - self._settled_s) * self.bytes_per_s / len(self._active)
            for transfer in self._active:
                self.bytes_total += min(sent, transfer.left_bytes)
                transfer.left_bytes = max(transfer.left_bytes - sent, 0.0)
        self._settled_s = now

    def _plan(self) -> None:
        """Schedule the next end, valid until something changes."""
        self._change += 1
        if self._active:
            first = min(self._active, key=lambda transfer: transfer.left_bytes)
            wait_s = first.left_bytes * len(self._active) / self.bytes_per_s
            self._timeline.at(self._timeline.now + wait_s, partial(self._end, first, self._change))

    def _end(self, transfer: Transfer, change: int) -> None:
        if change != self._change:
            return  # transfers have changed since this was scheduled
        self._settle()
        self.bytes_total += transfer.left_bytes  # rounding error
        transfer.is_over = True
        self._active.remove(transfer)
        self._plan()
        transfer.arrived()
