"""What a router assumes its engines have cached. None of these reads the state of an engine.

Blocks are those of the trace, with 512 tokens, also for routers with smaller ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict, deque
from collections.abc import Sequence

from contest.cache import BlockCache
from headgate.fleet import EndpointState


class Beliefs(ABC):
    """The blocks that each engine is assumed to have."""

    wants_kv_events = False
    """Whether engines report stored and removed blocks in the router's published design."""

    @abstractmethod
    def held(self, prefix: Sequence[int], load: EndpointState, now: float) -> int:
        """Number of leading blocks of a prompt that are assumed cached."""

    def booked(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:  # noqa: B027
        """A prompt was sent there."""

    def stored(self, blocks: Sequence[int], load: EndpointState) -> None:  # noqa: B027
        """An engine reported stored blocks."""

    def removed(self, blocks: Sequence[int], load: EndpointState) -> None:  # noqa: B027
        """An engine reported removed blocks."""


class Nothing(Beliefs):
    """For routers that do not look at prompts."""

    def held(self, prefix: Sequence[int], load: EndpointState, now: float) -> int:
        return 0


class OwnPicks(Beliefs):
    """Whatever was sent to an engine is cached there, up to a limit, least recently used first out.

    `most_blocks` is how much of a prompt the router considers; None for all of it.
    """

    def __init__(self, limit_blocks: int, most_blocks: int | None = None) -> None:
        self._caches: dict[EndpointState, BlockCache] = defaultdict(lambda: BlockCache(limit_blocks))
        self._most_blocks = most_blocks

    def held(self, prefix: Sequence[int], load: EndpointState, now: float) -> int:
        return self._caches[load].matched(prefix[: self._most_blocks])

    def booked(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:
        self._caches[load].use(prefix[: self._most_blocks])

    def would_evict(self, load: EndpointState, blocks: int) -> list[int]:
        """The blocks that would be evicted for this many new ones."""
        cache = self._caches[load]
        return cache.oldest(len(cache) + blocks - cache.capacity)


class KvEvents(Beliefs):
    """The blocks that engines report, without delay. They report nothing about waiting prompts.

    With `speculative_s`, picked prompts count as cached for this long, before any event.
    """

    wants_kv_events = True

    def __init__(self, speculative_s: float = 0.0) -> None:
        self._blocks: dict[EndpointState, set[int]] = defaultdict(set)
        self._speculative_s = speculative_s
        self._expected: dict[EndpointState, dict[int, float]] = defaultdict(dict)
        self._expiring: deque[tuple[float, EndpointState, Sequence[int]]] = deque()

    def held(self, prefix: Sequence[int], load: EndpointState, now: float) -> int:
        blocks, expected = self._blocks[load], self._expected[load]
        if self._speculative_s:
            self._expire(now)
        return next(
            (at for at, block in enumerate(prefix) if block not in blocks and block not in expected),
            len(prefix),
        )

    def booked(self, prefix: Sequence[int], load: EndpointState, now: float) -> None:
        if self._speculative_s:
            until = now + self._speculative_s
            self._expiring.append((until, load, prefix))
            self._expected[load].update(dict.fromkeys(prefix, until))

    def _expire(self, now: float) -> None:
        while self._expiring and self._expiring[0][0] <= now:
            until, load, prefix = self._expiring.popleft()
            expected = self._expected[load]
            for block in prefix:
                if expected.get(block) == until:
                    del expected[block]

    def stored(self, blocks: Sequence[int], load: EndpointState) -> None:
        self._blocks[load].update(blocks)

    def removed(self, blocks: Sequence[int], load: EndpointState) -> None:
        self._blocks[load].difference_update(blocks)
