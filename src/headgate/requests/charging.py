"""What a request costs its flow: an estimate while it is queued, and its actual usage when it is over."""

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


def uncached_tokens(scheduled: Request, plane: DataPlane, loads: Sequence[EndpointState]) -> int:
    """Tokens of the prompt that no endpoint has cached."""
    held = plane.prefixes.matched(scheduled.prefix, loads) if scheduled.prefix else None
    cached = scheduled.tokens_in(max(held)) if held else 0
    return max(scheduled.prompt_tokens - cached, 0)


def output_tokens(scheduled: Request, plane: DataPlane) -> int:
    """Expected tokens of the response, even if the shell gave no estimate."""
    return scheduled.output_tokens or plane.sizes.answers.expected(scheduled.model, None)


def has_taken(life: Life) -> bool:
    """Whether an engine worked for the request: it was served, a response had begun, or the client left
    during an attempt. Work that endpoints failed to complete is charged to nobody."""
    account = life.account
    outcome = account.outcome
    return outcome == SERVED or bool(account.first_byte_at) or (outcome in CLIENT and account.attempts > 0)


def taken_by(life: Life, charged: int) -> flow_queue.Usage:
    """The usage of a request that is over. A request that the engine rejected used nothing. If the response
    broke off or the client left, the part that arrived is charged."""
    account, decision = life.account, life.decision
    if account.upstream_status >= 400:
        return flow_queue.Usage(prompt_tokens=0, output_tokens=0)
    scheduled, counted = decision.scheduled, account.usage
    if counted is not None and account.outcome == SERVED:
        return taken(scheduled, charged, counted, counted.completion)
    came = life.received.tokens(scheduled.output_tokens, counted, is_stream=decision.stream)
    return taken(scheduled, charged, counted, came)


def taken(scheduled: Request, charged: int, counted: Usage | None, output_tokens: int) -> flow_queue.Usage:
    """The usage by the engine's prompt count, or else by the estimate.

    `charged` is the work estimated before. Many engines do not report cached tokens; then the earlier
    estimate is used.
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
