"""Runs of blocks: what endpoints hold of prompts, in pieces as large as possible.

The blocks of a prompt come and go together, so they are not tracked one by one: a run stands for consecutive
blocks with the same holders. Looking up or recording a prompt costs in proportion to its runs, which are few:
what it shares with other prompts, and what is its own.
"""

from __future__ import annotations

from collections.abc import Sequence


class Run:
    """Consecutive blocks of a prompt. An endpoint that holds them holds all runs before as well."""

    __slots__ = ("answered", "blocks", "followers", "holders", "parent", "size", "start")

    def __init__(self, parent: Run | None, start: int, blocks: list[int], size: int, holders: int) -> None:
        self.parent = parent
        """The run before it; None at the front of a prompt."""
        self.start = start
        """How many blocks are before it."""
        self.blocks = blocks
        self.size = size
        """In units, of which a block may be several."""
        self.holders = holders
        """Bitmask of endpoints."""
        self.followers = 0
        """Number of runs whose parent it is."""
        self.answered = 0
        """Blocks of the prompt that ended here together with its response; 0 without a response, `SEVERAL` if
        several prompts ended here."""

    @property
    def end(self) -> int:
        return self.start + len(self.blocks)


SEVERAL = -1


class Runs:
    """All runs, by their blocks. Prompts with the same beginning share their first runs."""

    def __init__(self, block_ends: Sequence[int] = ()) -> None:
        """`block_ends`: where the blocks of any prompt end, in units; empty if each block is one unit
        long."""
        self._ends = (0, *block_ends) if block_ends else ()
        self._of: dict[int, Run] = {}

    def __len__(self) -> int:
        """The number of different blocks."""
        return len(self._of)

    def find(self, prefix: Sequence[int]) -> tuple[Run | None, int]:
        """The last run that contains blocks of a prompt, and how many leading blocks of the prompt are
        known."""
        of = self._of
        run = of.get(prefix[-1])
        if run is not None:
            return run, len(prefix)
        run = of.get(prefix[0])
        if run is None:
            return None, 0
        low, high = 1, len(prefix) - 1
        while low < high:
            middle = (low + high) // 2
            found = of.get(prefix[middle])
            if found is None:
                high = middle
            else:
                run, low = found, middle + 1
        return run, low

    def append(self, parent: Run | None, start: int, blocks: list[int]) -> Run:
        """Add a run without holders, after another or at the front."""
        run = Run(parent, start, blocks, self._size(start, start + len(blocks)), 0)
        if parent is not None:
            parent.followers += 1
        self._place(run, blocks)
        return run

    def extend(self, run: Run, blocks: list[int]) -> int:
        """Extend a run that nothing follows; returns by how many units."""
        end = run.start + len(run.blocks)
        size = self._size(end, end + len(blocks))
        run.blocks += blocks
        run.size += size
        run.answered = 0
        self._place(run, blocks)
        return size

    def cut(self, run: Run, count: int) -> Run:
        """Split a run: returns its first `count` blocks as a new run before it, with the same holders."""
        blocks = run.blocks[:count]
        front = Run(run.parent, run.start, blocks, self._size(run.start, run.start + count), run.holders)
        front.followers = 1
        del run.blocks[:count]
        run.parent, run.start, run.size = front, run.start + count, run.size - front.size
        self._place(front, blocks)
        return front

    def _place(self, run: Run, blocks: list[int]) -> None:
        of = self._of
        for block in blocks:  # half the cost of an update with a dict of them
            of[block] = run

    def answer(self, last: int, size: int, holder: int, blocks: int) -> None:
        """Record the length of a prompt with its response, if the prompt, of `size` blocks, ends with a run
        that nothing follows and that only this endpoint holds."""
        run = self._of.get(last)
        if run is None or run.followers or run.holders != holder or run.end != size:
            return
        if run.answered:
            run.answered = SEVERAL
        else:
            run.answered = blocks

    def remove(self, run: Run) -> None:
        """Remove a run without holders."""
        of = self._of
        for block in run.blocks:
            of.pop(block, None)  # it is there, unless two prompts had one hash
        if run.parent is not None:
            run.parent.followers -= 1

    def _size(self, start: int, end: int) -> int:
        """Size of the blocks between two positions of a prompt, in units."""
        ends = self._ends
        return ends[end] - ends[start] if ends else end - start

    def blocks_of(self, size: int, run: Run) -> int:
        """How many blocks at the end of a run make up at least `size` units."""
        end = run.start + len(run.blocks)
        count = 1
        while count < len(run.blocks) and self._size(end - count, end) < size:
            count += 1
        return count

    def validate(self) -> None:
        """Check the invariants; for tests."""
        runs = set(self._of.values())
        assert sum(len(run.blocks) for run in runs) == len(self._of)
        for run in runs:
            parent = run.parent
            assert run.blocks
            assert all(self._of[block] is run for block in run.blocks)
            assert run.size == self._size(run.start, run.start + len(run.blocks))
            assert run.followers == sum(other.parent is run for other in runs)
            assert run.holders
            if parent is None:
                assert run.start == 0
            else:
                assert parent in runs
                assert run.start == parent.start + len(parent.blocks)
                assert run.holders & parent.holders == run.holders
