"""The KV cache blocks held by one request."""

import sys
from collections.abc import Sequence

from headgate.simulator.model.request import SimulatedRequest
from headgate.simulator.model.tiers import Below

NEVER = sys.maxsize


class Holding:
    """The blocks of one request, filled by its tokens in order, the last one partly."""

    __slots__ = (
        "block_size",
        "blocks",
        "cached_tokens",
        "disk_tokens",
        "hashes",
        "host_tokens",
        "looked_at",
        "nameable",
        "named",
        "names_at",
        "remote_tokens",
        "request",
        "room",
    )

    def __init__(
        self,
        request: SimulatedRequest,
        hashes: Sequence[int],
        nameable: int,
        blocks: int,
        block_size: int,
        found: int,
        below: Below,
    ) -> None:
        self.request = request
        self.hashes = hashes
        """Hashes of full blocks, front first; those of the output only as far as needed."""
        self.nameable = nameable
        """How many blocks have a hash once they are full."""
        self.blocks = blocks
        self.block_size = block_size
        self.room = blocks * block_size
        """Tokens that fit."""
        self.cached_tokens = (found + below.blocks) * block_size
        """Tokens found in a cache when the request started, which are not computed."""
        self.host_tokens = below.in_host * block_size
        """Those of them that come from host memory."""
        self.disk_tokens = below.on_disk * block_size
        """Those of them that come from disk."""
        self.remote_tokens = below.in_remote * block_size
        """Those of them that come from the shared store."""
        self.looked_at = found
        """How many blocks from the front were processed for naming."""
        self.named = list(hashes[: self.looked_at])
        """The hashes that it holds, front first."""
        self.names_at = NEVER
        """Once this many tokens are computed, the next block can be named."""
        self.look_until(found)

    def look_until(self, blocks: int) -> None:
        """Mark the first `blocks` blocks as processed."""
        self.looked_at = blocks
        self.names_at = (blocks + 1) * self.block_size if blocks < self.nameable else NEVER

    def hashes_of(self, blocks: int) -> Sequence[int]:
        """Hashes of at least the first `blocks` blocks, of which the last has a hash."""
        if blocks > len(self.hashes):
            behind_prompt = self.request.prompt_tokens // self.block_size
            first = len(self.hashes) - behind_prompt
            answer = self.request.answer_blocks
            self.hashes = [*self.hashes, *(answer[at] for at in range(first, blocks - behind_prompt))]
        return self.hashes
