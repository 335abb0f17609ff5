"""SGLang's form: both sides get the same room at the same time, and meet at the prefill side's address."""

import asyncio
from collections.abc import Callable
from typing import Any

from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.kv_fields import Bootstrap
from headgate.simulator.server.kv_transfer.protocol import Deviation, Protocol
from headgate.simulator.server.kv_transfer.rooms import Rooms
from headgate.simulator.server.kv_transfer.side_channel import SideChannel
from headgate.simulator.server.kv_transfer.transfer import Computed, Transfer, digest_of


class BootstrapPrefill(Transfer):
    """Waits for the decode side in every room, then computes, then lets it go on."""

    waits = True

    def __init__(self, generation: Generation, bootstrap: Bootstrap, rooms: Rooms) -> None:
        self._generation = generation
        self._numbers = bootstrap.rooms
        self._rooms = rooms
        self._entered = [rooms.enter_prefill(number) for number in self._numbers]

    async def arrive(self) -> tuple[int, ...]:
        try:
            async with asyncio.timeout(self._rooms.timeout_s):
                for room in self._entered:
                    await room.decode_came.wait()
                    if room.computed.done():
                        raise ApiError(500, "Prefill bootstrap failed: the room was closed")
        except TimeoutError as error:
            told = f"Prefill bootstrap failed: the decode side did not come in {self._rooms.timeout_s:g} s"
            raise ApiError(500, told) from error
        return ()

    def computed(self, answer_id: str, release: Callable[[], None]) -> dict[str, Any] | None:
        for index, room in enumerate(self._entered):
            prompt = self._generation.prompts[index // self._generation.choices_per_prompt]
            if not room.computed.done():
                room.computed.set_result(Computed(digest_of(prompt), len(prompt)))
        return None

    def close(self) -> None:
        """A room that got no result tells the decode side so; the others are closed as that side leaves."""
        for number, room in zip(self._numbers, self._entered, strict=True):
            if not room.computed.done():
                self._rooms.close(number, room)


class BootstrapDecode(Transfer):
    """Waits for the prefill side, and fails with it, as SGLang does: it does not compute prompts itself."""

    waits = True

    def __init__(
        self, generation: Generation, bootstrap: Bootstrap, side_channel: SideChannel, protocol: Protocol
    ) -> None:
        self._generation = generation
        self._bootstrap = bootstrap
        self._side_channel = side_channel
        self._protocol = protocol

    async def arrive(self) -> tuple[int, ...]:
        places = zip(self._bootstrap.hosts, self._bootstrap.ports, self._bootstrap.rooms, strict=True)
        results = await asyncio.gather(
            *(self._side_channel.enter_room(host or "", port, room) for host, port, room in places)
        )
        for index, computed in enumerate(results):
            room = self._bootstrap.rooms[index]
            if computed is None:
                self._protocol.saw("prefill did not come")
                raise ApiError(500, f"Decode handshake failed for room {room}: no prefill came of it")
            prompt = self._generation.prompts[index // self._generation.choices_per_prompt]
            if computed.digest != digest_of(prompt):
                message = f"bootstrap_room: the prefill side computed another prompt in room {room}"
                self._protocol.found([Deviation("other_prompt", "bootstrap_room", message)])
        self._protocol.saw("prompt received")
        return self._generation.prompt_sizes
