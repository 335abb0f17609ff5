"""The sides of a prefill/decode pair, in the forms of vLLM, SGLang and LMCache."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headgate.simulator.server.blocks import block_hashes
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.kv_fields import Bootstrap, NixlParams
from headgate.simulator.server.kv_transfer.meeting import HeldPrompts, Rooms
from headgate.simulator.server.kv_transfer.side_channel import ReadBlocks, SideChannel
from headgate.simulator.server.kv_transfer.transfer import Computed, Deviation, Protocol, Transfer, digest_of


# vLLM's form: the prefill's answer says where its blocks are, and the decode request brings that along.
class NixlPrefill(Transfer):
    """Computes a prompt and holds it for another engine."""

    def __init__(
        self, generation: Generation, held: HeldPrompts, engine_id: str, address: tuple[str, int]
    ) -> None:
        self._generation = generation
        self._held = held
        self._engine_id = engine_id
        self._address = address

    keeps_kv = True

    def computed(self, answer_id: str, release: Callable[[], None]) -> dict[str, Any] | None:
        # As vLLM has it: only an answer that its limit ended has blocks to hand on, and a stream no place
        # to say where they are.
        if self._generation.max_tokens is None or self._generation.stream:
            release()
            return None
        prompt = self._generation.prompts[0]
        held = self._held.hold(answer_id, digest_of(prompt), len(prompt), release)
        params = NixlParams(
            do_remote_prefill=True,
            do_remote_decode=False,
            remote_engine_id=self._engine_id,
            remote_block_ids=list(held.block_ids),
            remote_request_id=held.request_id,
            remote_host=self._address[0],
            remote_port=self._address[1],
            tp_size=1,
        )
        return msgspec.structs.asdict(params)


class NixlDecode(Transfer):
    """Reads what another engine computed. Whatever is not there is computed here, as vLLM does by default."""

    waits = True

    def __init__(
        self, generation: Generation, params: NixlParams, side_channel: SideChannel, protocol: Protocol
    ) -> None:
        self._generation = generation
        self._params = params
        self._side_channel = side_channel
        self._protocol = protocol

    async def arrive(self) -> tuple[int, ...]:
        params = self._params
        if params.absent():
            self._protocol.saw("prompt computed again")
            return ()
        blocks = [
            block
            for group in params.remote_block_ids or ()
            for block in (group if isinstance(group, list) else [group])
        ]
        wanted = ReadBlocks(
            engine_id=params.remote_engine_id or "", block_ids=blocks, request_id=params.remote_request_id
        )
        read = await self._side_channel.read_blocks(params.remote_host or "", params.remote_port or 0, wanted)
        prompt = self._generation.prompts[0]
        if read is None:
            self._recompute("stale_params", "remote_block_ids: the other engine does not hold these blocks")
            return ()
        if read.digest != digest_of(prompt):
            self._recompute("other_prompt", "the other engine prefilled another prompt")
            return ()
        self._protocol.saw("prompt received")
        return (len(prompt), *(0 for _ in self._generation.prompts[1:]))

    def _recompute(self, check: str, message: str) -> None:
        field = "kv_transfer_params"
        self._protocol.saw("prompt computed again")
        self._protocol.found([Deviation(check, field, f"{field}: {message}")])


# SGLang's form: both sides get the same room at the same time, and meet at the prefill side's address.
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


# LMCache's form: engines put what they computed into a store that they share, and find it there by content.
#
# The store is a SQLite file, so that engines in several processes of one machine can share it. It keeps the
# names of blocks, and stands for the memory that a real one has.
MAX_BLOCKS = 1_000_000
"""Blocks that are kept; the oldest go first."""
WAIT_S = 1.0
"""How long one engine waits for another that writes."""
_AT_ONCE = 500


class BlockStore:
    """Names of blocks in a file. `close` it."""

    def __init__(self, path: str) -> None:
        """Opens or makes the file; OSError if that is not possible."""
        try:
            self._file = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=OFF")
            self._file.execute("CREATE TABLE IF NOT EXISTS blocks (name INTEGER UNIQUE)")
        except sqlite3.Error as error:
            raise OSError(f"--kv-store: cannot use {path}: {error}") from error

    def put(self, hashes: Sequence[int]) -> None:
        """Blocks that are there already become the newest."""
        with contextlib.suppress(sqlite3.OperationalError):  # somebody else writes for long: not stored, then
            self._file.executemany("REPLACE INTO blocks VALUES (?)", [(_signed(each),) for each in hashes])
            self._file.execute(
                "DELETE FROM blocks WHERE rowid <= (SELECT max(rowid) FROM blocks) - ?", (MAX_BLOCKS,)
            )

    def found(self, hashes: Sequence[int]) -> int:
        """How many blocks from the front are there."""
        for first in range(0, len(hashes), _AT_ONCE):
            names = [_signed(each) for each in hashes[first : first + _AT_ONCE]]
            marks = ",".join("?" * len(names))
            there = self._file.execute(f"SELECT name FROM blocks WHERE name IN ({marks})", names)  # noqa: S608
            known = {name for (name,) in there}
            for number, name in enumerate(names):
                if name not in known:
                    return first + number
        return len(hashes)

    def close(self) -> None:
        self._file.close()


class StoredPrefix(Transfer):
    """A request that begins with what the store has, and leaves there what it computed."""

    waits = True

    def __init__(
        self, generation: Generation, store: BlockStore, block_size: int, protocol: Protocol
    ) -> None:
        self._store = store
        self._block_size = block_size
        self._protocol = protocol
        self._hashes = [
            block_hashes(prompt, block_size, generation.model, generation.cache_salt)
            for prompt in generation.prompts
        ]

    async def arrive(self) -> tuple[int, ...]:
        tokens = tuple(self._store.found(hashes) * self._block_size for hashes in self._hashes)
        if any(tokens):
            self._protocol.saw("prefix found in the store")
        return tokens

    def computed(self, answer_id: str, release: Callable[[], None]) -> dict[str, Any] | None:
        for hashes in self._hashes:
            self._store.put(hashes)
        return None


def _signed(value: int) -> int:
    """SQLite's integers have a sign."""
    return value - 2**63
