"""Which blocks of tokens the blocks of bytes in prompts are: learned from prompts whose tokens are known.

A prompt that comes in has hashes of its bytes, and engines tell of hashes of tokens. Once the tokens of one
prompt are known, those of every prompt that begins with the same bytes are known as well, up to there, and
nothing need be tokenised on the way of a request. For each block of bytes it is noted which block of tokens
is the last one before its end; its hash stands for all tokens before.

Where in its tokens a block of bytes ends is estimated by its share of the prompt, a little short of it. If
that was too far, another prompt that begins with the same bytes has other tokens there: then the place
before is taken, on which both agree.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence

from headgate.fleet.prefix import residency

MAX_BLOCKS = 200_000
SHORT_OF = 0.97
"""How much of the estimated place counts."""


class PromptChains:
    """Blocks of bytes to blocks of tokens, for one size of the latter; those not used for long leave."""

    def __init__(self, block_tokens: int, max_blocks: int = MAX_BLOCKS) -> None:
        self.block_tokens = block_tokens
        self._max_blocks = max_blocks
        self._found: OrderedDict[int, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._found)

    def learn(
        self, prefix: Sequence[int], shares: Sequence[float], tokens: array[int], adapter: str
    ) -> list[int]:
        """Takes the tokens of a prompt; returns the blocks of tokens that its blocks of bytes come to.

        `shares` is how much of the prompt comes before the end of each of its blocks of bytes, 0 to 1.
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
        """The blocks of tokens of a prompt's blocks of bytes, as far as they are known from its front."""
        found: list[int] = []
        for block in map(self._found.get, prefix):
            if block is None:
                break
            found.append(block)
        return found

    def knows(self, prefix: Sequence[int]) -> bool:
        """Whether all blocks of a prompt are known."""
        return not prefix or prefix[-1] in self._found
