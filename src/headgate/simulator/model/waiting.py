"""The queue of an engine: first come, first served, or by priority."""

from bisect import insort
from collections.abc import Iterator

from headgate.simulator.model.sequence import Sequence


def by_priority(sequence: Sequence) -> tuple[int, int]:
    """As vLLM sorts: the smaller number first, then who came first."""
    return sequence.request.priority, sequence.order


class WaitingQueue:
    """Sequences that are not in the batch, in the order in which they are asked to start."""

    def __init__(self, *, by_priority: bool) -> None:
        self._by_priority = by_priority
        self._sequences: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences)

    def add(self, sequence: Sequence) -> None:
        """One that came just now."""
        if self._by_priority:
            insort(self._sequences, sequence, key=by_priority)
        else:
            self._sequences.append(sequence)

    def give_back(self, sequence: Sequence) -> None:
        """One that was preempted: it goes first again, unless priorities say otherwise."""
        if self._by_priority:
            insort(self._sequences, sequence, key=by_priority)
        else:
            self._sequences.insert(0, sequence)

    def remove(self, sequence: Sequence) -> None:
        self._sequences.remove(sequence)
