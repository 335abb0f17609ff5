"""The sides of a prefill/decode pair, in the protocols of vLLM, SGLang and LMCache."""

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


# vLLM's protocol: the prefill response says where its blocks are, and the decode request repeats that.
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
        # As in vLLM: only an output ended by its token limit has blocks to transfer, and a stream has no
        # field to report them in.
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
    """Reads what another engine computed. Missing blocks are computed here, the default in vLLM."""

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


# SGLang's protocol: both sides get the same room simultaneously, and meet at the prefill side's address.
class BootstrapPrefill(Transfer):
    """Waits for the decode side in every room, then computes, then lets it continue."""

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
        """Tell the decode side about rooms without a result; the others are closed when that side leaves."""
        for number, room in zip(self._numbers, self._entered, strict=True):
            if not room.computed.done():
                self._rooms.close(number, room)


class BootstrapDecode(Transfer):
    """Waits for the prefill side, and fails with it, as in SGLang: it does not compute prompts itself."""

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


# LMCache's protocol: engines put computed blocks into a shared store, and find them there by content.
#
# The store is a SQLite file, so that engines in several processes of one machine can share it. It keeps only
# the names of blocks, in place of the memory of a real store.
MAX_BLOCKS = 1_000_000
"""Blocks to keep; the oldest are evicted first."""
WAIT_S = 1.0
"""How long an engine waits for another one that is writing."""
_AT_ONCE = 500


class BlockStore:
    """Names of blocks in a file. Must be closed."""

    def __init__(self, path: str) -> None:
        """Open or create the file; raises OSError if that fails."""
        try:
            self._file = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=OFF")
            self._file.execute("CREATE TABLE IF NOT EXISTS blocks (name INTEGER UNIQUE)")
        except sqlite3.Error as error:
            raise OSError(f"--kv-store: cannot use {path}: {error}") from error

    def put(self, hashes: Sequence[int]) -> None:
        """Existing blocks become the newest."""
        with contextlib.suppress(sqlite3.OperationalError):  # locked for too long: do not store them
            self._file.executemany("REPLACE INTO blocks VALUES (?)", [(_signed(each),) for each in hashes])
            self._file.execute(
                "DELETE FROM blocks WHERE rowid <= (SELECT max(rowid) FROM blocks) - ?", (MAX_BLOCKS,)
            )

    def found(self, hashes: Sequence[int]) -> int:
        """How many blocks from the front are stored."""
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
    """A request that starts with the blocks in the store, and adds the ones it computes."""

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
    """SQLite integers are signed."""
    return value - 2**63
