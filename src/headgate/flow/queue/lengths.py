"""Finds the flow of a band with the most queued requests: it makes room when a queue is full."""

from __future__ import annotations

from headgate.flow.queue.flow import Flow


class Lengths:
    """Flows by their number of requests. Lengths change by one, so each change takes constant time."""

    __slots__ = ("_by_length", "_most")

    def __init__(self) -> None:
        self._by_length: dict[int, dict[Flow, None]] = {}
        self._most = 0

    def grown(self, flow: Flow) -> None:
        """Record that the flow has one more request."""
        length = len(flow.members)
        if length > 1:
            self._remove(flow, length - 1)
        self._by_length.setdefault(length, {})[flow] = None
        self._most = max(self._most, length)

    def shrunk(self, flow: Flow) -> None:
        """Record that the flow has one request less."""
        length = len(flow.members)
        self._remove(flow, length + 1)
        if length:
            self._by_length.setdefault(length, {})[flow] = None
        if self._most > length and self._most not in self._by_length:
            self._most = length

    def longest(self) -> Flow:
        """The longest flow; among several, the one that has been so long for the longest time."""
        return next(iter(self._by_length[self._most]))

    def _remove(self, flow: Flow, length: int) -> None:
        flows = self._by_length[length]
        del flows[flow]
        if not flows:
            del self._by_length[length]
