"""The prompts that this gateway sent recently, for other gateways."""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headgate.fleet.ledger import EndpointState

MAX_UNSENT = 2000
"""Prompts and responses between two reports; more are dropped, and other gateways hit caches less often."""
MAX_RECENT = 2000
"""Prompts that a gateway gets when it joins."""
MAX_BLOCKS = 4096
"""Blocks of one prompt that are reported: its head is what other prompts share."""


class Entry(NamedTuple):
    """A prompt sent to an endpoint, or a response to one."""

    load: EndpointState
    hashes: Sequence[int]
    size: int
    """Blocks of the prompt that was responded to; 0 for a prompt."""
    answered: int


class Journal:
    """Appended to by the prefix index within a pick, so it only keeps references."""

    __slots__ = ("_recent", "_unsent", "dropped")

    def __init__(self) -> None:
        self._unsent: deque[Entry] = deque()
        self._recent: deque[Entry] = deque(maxlen=MAX_RECENT)
        self.dropped = 0
        """Entries that no report contained."""

    def sent(self, prefix: Sequence[int], load: EndpointState) -> None:
        """Record a prompt."""
        self._add(Entry(load, prefix, 0, 0))

    def responded(self, prefix: Sequence[int], load: EndpointState, blocks: int) -> None:
        """Record that prompt and response together have `blocks`."""
        self._add(Entry(load, prefix[-1:], len(prefix), blocks))

    def _add(self, entry: Entry) -> None:
        if len(self._unsent) >= MAX_UNSENT:
            self._unsent.popleft()
            self.dropped += 1
        self._unsent.append(entry)
        self._recent.append(entry)

    def take(self) -> list[Entry]:
        """The entries since the last call."""
        taken = list(self._unsent)
        self._unsent.clear()
        return taken

    def recent(self) -> list[Entry]:
        """The last entries, oldest first, whether or not they were taken."""
        return list(self._recent)


def packed(hashes: Sequence[int]) -> bytes:
    """Hashes as bytes."""
    values = array("Q", hashes[:MAX_BLOCKS])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def unpacked(data: bytes) -> list[int]:
    """Hashes from bytes; what does not make up a whole one is left out."""
    values = array("Q")
    values.frombytes(data[: len(data) - len(data) % values.itemsize])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()
