"""What several like steps do to the cache, in the order in which single steps would do it.

Where a sequence that decodes names the blocks of its answer, that order matters: who names a block first has
the name, and a block that is cached for nobody may be taken before, or after, somebody finds its name taken.
"""

from collections.abc import Callable, Sequence
from functools import partial

from headgate.simulator.model.kv import KvBlocks
from headgate.simulator.model.sequence import Chunk
from headgate.simulator.model.sequence import Sequence as Running

_GROWS, _PREFILLS, _NAMES = range(3)
"""In a step: blocks are taken, a chunk of a prompt is named as it begins, answers are as it ends."""


def follow(kv: KvBlocks, decoding: Sequence[Running], chunks: Sequence[Chunk], steps: int) -> None:
    """The last `steps` steps of these have been computed; the first of them had its blocks.

    Chunks are those of each step, of sequences that have computed them.
    """
    due: list[tuple[int, int, int, Callable[[], object]]] = []
    for order, sequence in enumerate(decoding):
        holding = sequence.holding
        if holding is None:
            continue
        before, size = sequence.computed - steps, kv.block_size
        for room in range(holding.room, sequence.computed, size):
            due.append((room - before, _GROWS, order, partial(sequence.grow, kv, room + 1)))
        for full in range(holding.names_at, sequence.computed + 1, size):
            due.append((full - before - 1, _NAMES, order, partial(kv.name, holding, full)))
    for order, (sequence, tokens) in enumerate(chunks):
        if sequence.holding is not None:
            for step in range(1, steps):
                computed = sequence.computed - (steps - 1 - step) * tokens
                due.append((step, _PREFILLS, order, partial(kv.name, sequence.holding, computed)))
    for *_, action in sorted(due, key=lambda each: each[:3]):
        action()


def catch_up(kv: KvBlocks, decoding: Sequence[Running], chunks: Sequence[Chunk], steps: int) -> None:
    """As `follow`, where no answer is named: the order makes no difference then."""
    for sequence in decoding:
        if sequence.room_left < 0:
            sequence.grow(kv, sequence.computed)
    for sequence, _ in chunks:
        if sequence.holding is not None:
            kv.name(sequence.holding, sequence.computed)
