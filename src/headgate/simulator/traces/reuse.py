"""How much of a trace is asked again: the bound of what caches can spare."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.simulator.traces.timed import TimedRequest


def ideal_hit_rate(requests: Iterable[TimedRequest]) -> float | None:
    """The share of prompt tokens that one cache without bounds would find: no fleet can do better.

    None if no request tells its prefix. As in engines, full blocks are found, and the last token is computed.
    """
    seen: set[int] = set()
    cached = tokens = 0
    for request in requests:
        tokens += request.prompt_tokens
        if not request.prefix:
            continue
        usable = request.prefix[: (request.prompt_tokens - 1) // request.block_tokens]
        known = next((index for index, block in enumerate(usable) if block not in seen), len(usable))
        cached += known * request.block_tokens
        seen.update(request.prefix[: request.prompt_tokens // request.block_tokens])
        seen.update(request.answer)
    return cached / tokens if seen else None
