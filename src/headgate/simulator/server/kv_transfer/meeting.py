"""State of an engine that waits for the other side of a pair: blocks to be read, and rooms to meet in."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.kv_transfer.transfer import Computed

# Blocks of prompts prefilled for another engine, held until it reads them or they expire.
MAX_HELD = 100_000
"""Prompts held at the same time; beyond that, the oldest is released."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A computed prompt that waits to be read."""

    request_id: str
    digest: str
    tokens: int
    block_ids: tuple[int, ...]
    until_s: float
    release: Callable[[], None]
    """Frees the blocks in the engine."""


class HeldPrompts:
    """Held prompts by their first block; each block number is used only once."""

    def __init__(self, block_size: int, hold_s: float, clock: Callable[[], float]) -> None:
        self._block_size = block_size
        self._hold_s = hold_s
        self._clock = clock
        self._next_block = 0
        self._held: dict[int, Held] = {}  # in order of expiry
        self.expired = 0

    def hold(self, request_id: str, digest: str, tokens: int, release: Callable[[], None]) -> Held:
        """Keep a prompt until it is read or expires."""
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
        """Hand a prompt over and forget it; None if it is not (or no longer) held."""
        self._expire()
        held = self._held.get(block_ids[0]) if block_ids else None
        if held is None or held.block_ids != block_ids or request_id not in (None, held.request_id):
            return None
        del self._held[block_ids[0]]
        held.release()
        return held

    def clear(self) -> None:
        """Forget everything, for an engine that has lost its memory."""
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


# Where the two sides of SGLang's protocol meet: a room for each sequence, on the prefill engine.
MAX_ROOMS = 20_000
"""Rooms open at the same time; more are rejected."""
REMEMBERED = 100_000
"""Used rooms that are remembered."""


class Room:
    """Which sides have arrived, and the result."""

    __slots__ = ("computed", "decode_came", "prefill_came")

    def __init__(self) -> None:
        self.decode_came = asyncio.Event()
        self.prefill_came = False
        self.computed: asyncio.Future[Computed | None] = asyncio.get_running_loop().create_future()
        """None once it is certain that nothing will be computed."""


class Rooms:
    """Rooms by number. The first side to arrive opens one; it is closed when the decode side leaves."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._rooms: dict[int, Room] = {}
        self._used: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rooms)

    def was_used(self, number: int) -> bool:
        return number in self._used

    def enter_prefill(self, number: int) -> Room:
        """The prefill side arrives. An earlier prefill with this number fails."""
        room = self._rooms.get(number)
        if room is not None and room.prefill_came:
            self.close(number, room)
            room = None
        room = room or self._open(number)
        room.prefill_came = True
        self._used[number] = None
        if len(self._used) > REMEMBERED:
            self._used.popitem(last=False)
        return room

    async def decode(self, number: int) -> Computed | None:
        """The decode side arrives and waits; None if the prefill fails or is late."""
        room = self._rooms.get(number) or self._open(number)
        room.decode_came.set()
        try:
            async with asyncio.timeout(self.timeout_s):
                return await asyncio.shield(room.computed)
        except TimeoutError:
            return None
        finally:
            self.close(number, room)

    def close(self, number: int, room: Room) -> None:
        if self._rooms.get(number) is room:
            del self._rooms[number]
        if not room.computed.done():
            room.computed.set_result(None)
        room.decode_came.set()  # lets the waiting prefill side learn that the decode side will not arrive

    def close_all(self) -> None:
        for number, room in list(self._rooms.items()):
            self.close(number, room)

    def _open(self, number: int) -> Room:
        if len(self._rooms) >= MAX_ROOMS:
            raise ApiError(503, f"{MAX_ROOMS} bootstrap rooms are open already")
        self._rooms[number] = Room()
        return self._rooms[number]
