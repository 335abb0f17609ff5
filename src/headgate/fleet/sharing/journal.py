"""The prompts that this gateway sent recently, for other gateways."""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from headgate.fleet.ledger import EndpointState

MAX_UNSENT = 2000
"""Prompts and responses between two reports; more are dropped, and other gateways hit caches less often."""
MAX_RECENT = 2000
"""Prompts that a gateway gets when it joins."""
MAX_BLOCKS = 4096
"""Blocks of one prompt that are reported: its head is what other prompts share."""


Entry: TypeAlias = "tuple[EndpointState, Sequence[int], int, int]"
"""An endpoint; hashes of a prompt that was sent to it, or of the last block of one that was responded to; the
blocks of that prompt, or 0 for one that was sent; and its blocks together with the response."""


class Journal:
    """Appended to by the prefix index within a pick, so it only keeps references."""

    __slots__ = ("_noted", "_recent", "_unsent", "dropped")

    def __init__(self) -> None:
        self._unsent: deque[Entry] = deque(maxlen=MAX_UNSENT)
        self._recent: deque[Entry] = deque(maxlen=MAX_RECENT)
        self._noted = 0
        """Entries since the last report, with those that were dropped."""
        self.dropped = 0
        """Entries that no report contained."""

    def sent(self, prefix: Sequence[int], load: EndpointState) -> None:
        """Record a prompt."""
        self._noted += 1
        self._unsent.append((load, prefix, 0, 0))

    def responded(self, prefix: Sequence[int], load: EndpointState, blocks: int) -> None:
        """Record that prompt and response together have `blocks`."""
        self._noted += 1
        self._unsent.append((load, prefix[-1:], len(prefix), blocks))

    def take(self) -> list[Entry]:
        """The entries since the last call."""
        taken = list(self._unsent)
        self.dropped += self._noted - len(taken)
        self._noted = 0
        self._unsent.clear()
        self._recent.extend(taken)
        return taken

    def recent(self) -> list[Entry]:
        """The last entries that were taken, oldest first."""
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
