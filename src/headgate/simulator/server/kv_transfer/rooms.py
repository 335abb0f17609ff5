"""Where the two sides of SGLang's form meet: a room for each sequence, on the engine that prefills it."""

import asyncio
from collections import OrderedDict

from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.kv_transfer.transfer import Computed

MAX_ROOMS = 20_000
"""Rooms open at once; further ones are refused."""
REMEMBERED = 100_000
"""Rooms that are known to have been used."""


class Room:
    """Who is there, and what came of it."""

    __slots__ = ("computed", "decode_came", "prefill_came")

    def __init__(self) -> None:
        self.decode_came = asyncio.Event()
        self.prefill_came = False
        self.computed: asyncio.Future[Computed | None] = asyncio.get_running_loop().create_future()
        """None once it is clear that nothing will be computed."""


class Rooms:
    """Rooms by number. Whoever comes first opens one; it is closed when the decode side leaves."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._rooms: dict[int, Room] = {}
        self._used: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rooms)

    def was_used(self, number: int) -> bool:
        return number in self._used

    def enter_prefill(self, number: int) -> Room:
        """The prefill side arrives. A prefill that is there already under this number has failed by that."""
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
        """The decode side arrives and waits; None if the prefill fails or does not come in time."""
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
        room.decode_came.set()  # who waits for that side learns that it will not come

    def close_all(self) -> None:
        for number, room in list(self._rooms.items()):
            self.close(number, room)

    def _open(self, number: int) -> Room:
        if len(self._rooms) >= MAX_ROOMS:
            raise ApiError(503, f"{MAX_ROOMS} bootstrap rooms are open already")
        self._rooms[number] = Room()
        return self._rooms[number]
