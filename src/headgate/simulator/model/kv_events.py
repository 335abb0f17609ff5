"""What a prefix cache tells about itself: blocks it stored and dropped, after vLLM's KV cache events."""

import msgspec

from headgate.simulator.model.request import RequestId

GPU = "GPU"
"""The medium of blocks in the accelerator's memory, by vLLM's name."""
CPU = "CPU"
"""The medium of blocks in the host's memory."""
DISK = "DISK"
"""The medium of blocks on a disk."""
REMOTE = "REMOTE"
"""The medium of blocks in a store that engines share. Each tells of those that it put there."""


class BlockStored(msgspec.Struct, frozen=True, kw_only=True):
    """Consecutive full blocks of a request can be found by their hashes from now on. Of the tiers below
    only the hashes are told, in no order, as vLLM does."""

    hashes: tuple[int, ...]
    parent: int | None
    """Hash of the block before the first of them; None at the front of a request."""
    block_size: int
    request_id: RequestId | None = None
    """Whose prompt and answer they are a part of: who has the text knows their token ids from it and from
    `position`."""
    position: int = 0
    """Index of the first of them among the blocks of that request."""
    adapter: str = ""
    medium: str = GPU


class BlockRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """These hashes find nothing any more."""

    hashes: tuple[int, ...]
    medium: str = GPU


class AllBlocksCleared(msgspec.Struct, frozen=True, kw_only=True):
    """No hash finds anything any more."""


KvEvent = BlockStored | BlockRemoved | AllBlocksCleared
