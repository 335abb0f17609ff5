"""A priority queue of flows with changing ranks: changes and the first flow cost O(log n)."""

from __future__ import annotations

import heapq
from itertools import count
from typing import TypeAlias

from headgate.flow.queue.flow import Flow

Rank: TypeAlias = tuple[float, ...]
"""The least is first; among equals, the one added first."""
SPARE = 64


class Ranking:
    """A heap with one valid entry per flow, which is `Flow.entry`, and outdated ones."""

    __slots__ = ("_flows", "_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, Flow]] = []
        self._numbers = count()
        self._flows = 0

    def put(self, flow: Flow, rank: Rank) -> None:
        """Add a flow, or move it."""
        if flow.entry is None:
            self._flows += 1
        flow.entry = entry = (rank, next(self._numbers), flow)
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * self._flows + SPARE:
            self._heap = [each for each in self._heap if _is_valid(each)]
            heapq.heapify(self._heap)

    def drop(self, flow: Flow) -> None:
        flow.entry = None
        self._flows -= 1

    def first(self) -> Flow:
        heap = self._heap
        while not _is_valid(heap[0]):
            heapq.heappop(heap)
        return heap[0][2]


def _is_valid(entry: tuple[Rank, int, Flow]) -> bool:
    """Whether the entry is current. Compares numbers, since compiled tuples have no identity."""
    own = entry[2].entry
    return own is not None and own[1] == entry[1]
