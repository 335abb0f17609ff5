"""Names for the blocks of a prompt: equal prompts in the same context have equal names, and only those."""

import xxhash

from headgate.simulator.model import Tokens


def block_hashes(prompt: Tokens, block_size: int, *salt: str) -> list[int]:
    """Hashes of the full blocks, each chained to those before it; 64 bits, as vLLM's events have them.

    `salt` is what else decides what the cache holds: the adapter, and the `cache_salt` of a request.
    """
    digest = xxhash.xxh3_64_intdigest("\0".join(salt).encode()) if any(salt) else 0
    data = prompt.tobytes()
    size = block_size * prompt.itemsize
    hashes = []
    for start in range(0, len(data) - size + 1, size):
        digest = xxhash.xxh3_64_intdigest(data[start : start + size], digest)
        hashes.append(digest)
    return hashes
