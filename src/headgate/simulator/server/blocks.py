"""Hashes of a request's blocks: equal if and only if tokens and context are equal."""

import random
from collections.abc import Sequence
from itertools import islice
from typing import overload

import xxhash

from headgate.simulator.model import Tokens, tokenize
from headgate.simulator.server.script import Script


def block_hashes(prompt: Tokens, block_size: int, *salt: str) -> list[int]:
    """Hashes of the full blocks, each chained to those before it; 64 bits, as in vLLM's events.

    `salt` is everything else that determines cache contents: the adapter, the `cache_salt` of a request, and
    the server's hash seed.
    """
    return _chained(prompt, block_size, _of_salt(salt))


class AnswerBlocks(Sequence[int]):
    """Hashes of the blocks that an output fills after its prompt, as the prompt of a next turn will have
    them.

    The words of an output are generated as they fall due, so those of a block are not looked up before its
    hash is needed.
    """

    def __init__(
        self, prompt: Tokens, prompt_hashes: Sequence[int], script: Script, block_size: int, *salt: str
    ) -> None:
        self._tokens = prompt[len(prompt_hashes) * block_size :]
        """Tokens from the prompt's partial last block on, as far as they were looked up."""
        self._words = script.words()
        self._block_size = block_size
        self._last = prompt_hashes[-1] if prompt_hashes else _of_salt(salt)
        self._hashes: list[int] = []
        # The last generated token is never computed.
        words = min(script.words_in_all, script.tokens - 1)
        self._count = (len(self._tokens) + words) // block_size

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> list[int]: ...
    def __getitem__(self, at: int | slice) -> int | list[int]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(self._count))]
        if not 0 <= at < self._count:
            raise IndexError(at)
        while len(self._hashes) <= at:
            self._hash_next()
        return self._hashes[at]

    def tokens(self, at: int, blocks: int) -> Tokens:
        """The token IDs in some of these blocks, whose hashes were already requested."""
        return self._tokens[at * self._block_size : (at + blocks) * self._block_size]

    def _hash_next(self) -> None:
        first = len(self._hashes) * self._block_size
        missing = first + self._block_size - len(self._tokens)
        self._tokens += tokenize("".join(islice(self._words, missing)))
        (self._last,) = _chained(self._tokens[first : first + self._block_size], self._block_size, self._last)
        self._hashes.append(self._last)


def rng_of(prompt: Tokens, *seed: object) -> random.Random:
    """A random generator seeded by a prompt's content, so that prompts draw independently."""
    digest = xxhash.xxh3_64_hexdigest(prompt.tobytes())
    return random.Random("/".join(map(str, (digest, *seed))))  # noqa: S311


def _of_salt(salt: Sequence[str]) -> int:
    return xxhash.xxh3_64_intdigest("\0".join(salt).encode()) if any(salt) else 0


def _chained(tokens: Tokens, block_size: int, digest: int) -> list[int]:
    data = tokens.tobytes()
    size = block_size * tokens.itemsize
    hashes = []
    for start in range(0, len(data) - size + 1, size):
        digest = xxhash.xxh3_64_intdigest(data[start : start + size], digest)
        hashes.append(digest)
    return hashes
