"""Maps the byte blocks of prompts to token blocks, learned from prompts whose tokens are known.

Incoming prompts have hashes of bytes; engines report hashes of tokens. Once the tokens of one prompt are
known, those of every prompt with the same leading bytes are known up to there, and no request has to be
tokenized. Each byte block maps to the last token block before its end, whose hash stands for all tokens
before.

The end of a byte block within the tokens is estimated by its share of the prompt, minus a margin. If the
estimate was too far, another prompt with the same leading bytes has other tokens there: then the previous
block is taken, on which both agree.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence

from headgate.fleet.prefix import residency

MAX_BLOCKS = 200_000
SHORT_OF = 0.97
"""Share of the estimated position that counts."""


class PromptChains:
    """Byte blocks to token blocks of one size, least recently used first."""

    def __init__(self, block_tokens: int, max_blocks: int = MAX_BLOCKS) -> None:
        self.block_tokens = block_tokens
        self._max_blocks = max_blocks
        self._found: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def learn(
        self, prefix: Sequence[int], shares: Sequence[float], tokens: array[int], adapter: str
    ) -> list[int]:
        """Learn the tokens of a prompt; returns the token blocks of its byte blocks.

        `shares`: how much of the prompt lies before the end of each byte block, 0 to 1.
        """
        begin = residency.front(adapter, self.block_tokens)
        whole = residency.chain(tokens, self.block_tokens, begin)
        at = {block: place for place, block in enumerate(whole, 1)} | {residency.FRONT: 0}
        blocks, least = [], residency.FRONT
        for block, share in zip(prefix, shares, strict=True):
            place = int(share * SHORT_OF * len(tokens)) // self.block_tokens
            known = self._found.get(block)
            if known is not None and known in at:
                least = known
            elif known is None and place:
                least = whole[min(place, len(whole)) - 1]
            self._found[block] = least
            self._found.move_to_end(block)
            blocks.append(least)
        while len(self._found) > self._max_blocks:
            self._found.popitem(last=False)
        return blocks

    def of(self, prefix: Sequence[int]) -> list[int]:
        """The token blocks of a prompt's leading byte blocks, as far as known."""
        found: list[int] = []
        for block in map(self._found.get, prefix):
            if block is None:
                break
            found.append(block)
        return found

    def knows(self, prefix: Sequence[int]) -> bool:
        """Whether all blocks of a prompt are known."""
        return not prefix or prefix[-1] in self._found
