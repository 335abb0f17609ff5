"""What a request costs its flow: as it is taken for when it waits, and as it turns out when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.flow import queue as flow_queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.fleet import EndpointLoad
    from headgate.fleet.prefix import PrefixIndex
    from headgate.gateway.usage import Usage
    from headgate.scheduling import Request


def work(scheduled: Request, prefixes: PrefixIndex, loads: Sequence[EndpointLoad]) -> int:
    """In tokens: of its prompt those that no endpoint holds, and of its answer all."""
    held = prefixes.matched(scheduled.prefix, loads) if scheduled.prefix else None
    cached = scheduled.tokens_in(max(held)) if held else 0
    return max(scheduled.prompt_tokens - cached, 0) + scheduled.output_tokens


def taken(scheduled: Request, charged: int, counted: Usage | None) -> flow_queue.Usage:
    """What it has taken: as the engine counted it, else as it was estimated.

    `charged` is the work that it was taken for. Many engines do not say what they had in their cache: then
    that is believed which was believed before.
    """
    believed = max(scheduled.prompt_tokens + scheduled.output_tokens - charged, 0)
    if counted is None:
        return flow_queue.Usage(
            prompt_tokens=scheduled.prompt_tokens,
            output_tokens=scheduled.output_tokens,
            cached_tokens=believed,
        )
    return flow_queue.Usage(
        prompt_tokens=counted.prompt,
        output_tokens=counted.completion,
        cached_tokens=counted.cached if counted.cached is not None else believed,
    )
