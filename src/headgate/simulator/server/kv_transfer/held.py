"""Blocks of prompts that were prefilled for another engine, held until it reads them or time is up."""

import asyncio
from collections.abc import Callable

import msgspec

MAX_HELD = 100_000
"""Prompts held at once; the oldest is let go for one more."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A computed prompt that waits to be read."""

    request_id: str
    digest: str
    tokens: int
    block_ids: tuple[int, ...]
    until_s: float
    release: Callable[[], None]
    """Lets the engine have the blocks again."""


class HeldPrompts:
    """Keyed by their first block, each of which is handed out once."""

    def __init__(self, block_size: int, hold_s: float, clock: Callable[[], float]) -> None:
        self._block_size = block_size
        self._hold_s = hold_s
        self._clock = clock
        self._next_block = 0
        self._held: dict[int, Held] = {}  # in the order in which they expire
        self.expired = 0

    def hold(self, request_id: str, digest: str, tokens: int, release: Callable[[], None]) -> Held:
        """Keep a prompt until it is read, or for as long as prompts are held."""
        if len(self._held) >= MAX_HELD:
            self._let_go(next(iter(self._held)))
        number = -(-tokens // self._block_size)
        blocks = tuple(range(self._next_block, self._next_block + number))
        self._next_block += number
        held = Held(
            request_id=request_id,
            digest=digest,
            tokens=tokens,
            block_ids=blocks,
            until_s=self._clock() + self._hold_s,
            release=release,
        )
        self._held[blocks[0]] = held
        asyncio.get_running_loop().call_later(self._hold_s, self._expire)
        return held

    def read(self, request_id: str | None, block_ids: tuple[int, ...]) -> Held | None:
        """Give a prompt away, and forget it; None if it is not (or no longer) held."""
        self._expire()
        held = self._held.get(block_ids[0]) if block_ids else None
        if held is None or held.block_ids != block_ids or request_id not in (None, held.request_id):
            return None
        del self._held[block_ids[0]]
        held.release()
        return held

    def clear(self) -> None:
        """Forget all, for an engine that has lost its memory."""
        self._held.clear()

    def __len__(self) -> int:
        self._expire()
        return len(self._held)

    def _expire(self) -> None:
        now = self._clock()
        while self._held and (first := next(iter(self._held.values()))).until_s <= now:
            self._let_go(first.block_ids[0])

    def _let_go(self, first_block: int) -> None:
        self._held.pop(first_block).release()
        self.expired += 1
