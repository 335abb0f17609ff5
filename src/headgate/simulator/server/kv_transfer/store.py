"""LMCache's form: engines put what they computed into a store that they share, and find it there by content.

The store is a SQLite file, so that engines in several processes of one machine can share it. It keeps the
names of blocks, and stands for the memory that a real one has.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from headgate.simulator.server.blocks import block_hashes
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.kv_transfer.protocol import Protocol
from headgate.simulator.server.kv_transfer.transfer import Transfer

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
