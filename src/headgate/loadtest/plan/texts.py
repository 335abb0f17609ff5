"""Texts of any number of tokens, equal where prompts share them.

A word of three letters and its space are one token for most tokenizers, and for simulated engines. A text
begins with words that no other text has, so that a cache finds nothing of it unless it was sent before.
"""

from __future__ import annotations

import hashlib
import random
from typing import Final

from headgate.traffic.traces import TimedRequest

_TEXT: Final = (
    "act age air arm art ask bad bag bar bay bed big bit box boy bus buy can cap car cat cow cry cup cut day "
    "dry ear eat egg end eye fan far fat few fit fly fun gas get guy hat hit hot ice job key kid law leg let "
    "lot low map men net new now oil old pay pen pet"
)
WORDS: Final = _TEXT.split()
_BYTES_PER_WORD: Final = 4
_OWN_WORDS: Final = 8
"""At the beginning of a text: 48 bits that tell it from others."""
_POOL_WORDS: Final = 1 << 14


class Texts:
    """Makes the texts of one run. Those of runs with another salt share nothing with them."""

    def __init__(self, salt: str) -> None:
        self._salt = salt.encode()
        rng = random.Random(salt)  # noqa: S311
        self._pool = "".join(f"{word} " for word in rng.choices(WORDS, k=_POOL_WORDS))

    def words(self, name: str, count: int) -> str:
        """A text of that many words, each followed by a space; equal names have equal beginnings."""
        digest = hashlib.blake2b(name.encode(), key=self._salt[:64], digest_size=8).digest()
        bits = int.from_bytes(digest)
        own = min(count, _OWN_WORDS)
        head = "".join(f"{WORDS[(bits >> (6 * at)) % len(WORDS)]} " for at in range(own))
        start = (bits >> 48) % _POOL_WORDS
        return head + self._from_pool(start, count - own)

    def prompt(self, request: TimedRequest, name: str) -> str:
        """The text of a prompt: its blocks, or one text if it shares none. `name` is that of the request."""
        if not request.prefix:
            return self.words(name, request.prompt_tokens).rstrip()
        parts, left = [], request.prompt_tokens
        for block in request.prefix:
            parts.append(self.words(f"block {block}", min(left, request.block_tokens)))
            left -= request.block_tokens
        return "".join(parts).rstrip()

    def _from_pool(self, start: int, count: int) -> str:
        parts = []
        while count > 0:
            part = self._pool[start * _BYTES_PER_WORD : (start + count) * _BYTES_PER_WORD]
            parts.append(part)
            count -= len(part) // _BYTES_PER_WORD
            start = 0
        return "".join(parts)
