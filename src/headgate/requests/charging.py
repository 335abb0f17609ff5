"""What a request costs its flow: as it is taken for when it waits, and as it turns out when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.flow import queue as flow_queue
from headgate.requests.account import CLIENT, SERVED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.fleet import EndpointState
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.life import Life
    from headgate.requests.reported import Usage
    from headgate.scheduling import Request


def work(scheduled: Request, plane: DataPlane, loads: Sequence[EndpointState]) -> int:
    """In tokens: those of its prompt that no endpoint holds, and those that its answer is expected to have,
    also where its shell did not say how many."""
    held = plane.prefixes.matched(scheduled.prefix, loads) if scheduled.prefix else None
    cached = scheduled.tokens_in(max(held)) if held else 0
    output_tokens = scheduled.output_tokens or plane.answer_sizes.expected(scheduled.model, None)
    return max(scheduled.prompt_tokens - cached, 0) + output_tokens


def has_taken(life: Life) -> bool:
    """Whether an engine worked for it: it was served, or an answer had begun, or its client left while it was
    at an endpoint. What endpoints failed at is nobody's."""
    account = life.account
    outcome = account.outcome
    return outcome == SERVED or bool(account.first_byte_at) or (outcome in CLIENT and account.attempts > 0)


def taken_by(life: Life, charged: int) -> flow_queue.Usage:
    """What a request has taken that is over: an engine that refused it has done no work, and of an answer
    that broke off, or whose client left, as much counts as came."""
    account, decision = life.account, life.decision
    if account.upstream_status >= 400:
        return flow_queue.Usage(prompt_tokens=0, output_tokens=0)
    scheduled, counted = decision.scheduled, account.usage
    if counted is not None and account.outcome == SERVED:
        return taken(scheduled, charged, counted, counted.completion)
    came = life.received.tokens(scheduled.output_tokens, counted, is_stream=decision.stream)
    return taken(scheduled, charged, counted, came)


def taken(scheduled: Request, charged: int, counted: Usage | None, output_tokens: int) -> flow_queue.Usage:
    """Of its prompt what the engine counted, else as it was estimated.

    `charged` is the work that it was taken for. Many engines do not say what they had in their cache: then
    that is believed which was believed before.
    """
    believed = max(scheduled.prompt_tokens + scheduled.output_tokens - charged, 0)
    if counted is None:
        return flow_queue.Usage(
            prompt_tokens=scheduled.prompt_tokens, output_tokens=output_tokens, cached_tokens=believed
        )
    return flow_queue.Usage(
        prompt_tokens=counted.prompt,
        output_tokens=output_tokens,
        cached_tokens=counted.cached if counted.cached is not None else believed,
    )
