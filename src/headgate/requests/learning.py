"""Learns from the counts at the end of a response: bytes per token, response lengths, token rates, and which
prefixes caches gained or lost.

An engine that reports far fewer cached tokens than expected has evicted them for other requests, or lost them
in a restart. It has this prompt again, as it has just prefilled it. But caches evict the least recently used
first, so everything used before the missing part is gone too, and is forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from headgate.fleet.prefix import hashing

if TYPE_CHECKING:
    from headgate.fleet import Booking
    from headgate.fleet.reading import EngineReading
    from headgate.requests.life import Attempt, Life
    from headgate.requests.reported import Usage

MIN_TOKENS: Final = 1024
"""Smaller expectations are ignored, as token counts are estimates."""
FAR_FEWER: Final = 0.5
FEW_WAITING: Final = 0.25
FULL_KV: Final = 0.9
"""Requests queue in an engine if more of them wait than this part of those that run, or if its cache is so
full that none can begin."""
SURE_AFTER_S = 30.0
"""A prompt sent more recently may not have been prefilled when the request was scheduled, so the engine could
not use it."""


def learn(life: Life, usage: Usage, booking: Booking | None, now: float) -> None:
    """Learn from the counts of a request that was served, at its end."""
    plane, decision, prompt_tokens = life.plane, life.decision, usage.prompt
    if decision.prompt_bytes and prompt_tokens:
        plane.sizes.prompts.learn(
            decision.scheduled.model, decision.prompt_bytes, prompt_tokens, decision.prompt_amounts
        )
    response_tokens = usage.completion
    attempt = life.attempt
    is_whole = life.pairing is None
    # With a pairing, cached tokens at the decoding endpoint were handed over by the prefill endpoint.
    if response_tokens:
        plane.sizes.answers.learn(decision.scheduled.model, response_tokens)
        if decision.stream and booking is not None:
            booking.paced(response_tokens, now)
        if attempt is not None and is_whole:
            if decision.stream:
                _time(life, attempt, response_tokens, now)
            _learn_response(life, attempt, usage)
    pool, cached = life.pool, usage.cached
    if cached is None or attempt is None or pool is None or not is_whole or not pool.policy.uses_prefix:
        return
    choice = attempt.choice
    plane.observer.cached(pool, prompt_tokens, choice.cached_tokens, cached)
    used_at = attempt.prefix_used_at
    if used_at is None or used_at >= attempt.began_at - SURE_AFTER_S:
        return
    if cached < FAR_FEWER * choice.cached_tokens:
        plane.prefixes.forget_until(used_at, choice.load)


def _time(life: Life, attempt: Attempt, response_tokens: int, now: float) -> None:
    """Add the times of a streamed response to those of its pool."""
    account, traffic = life.account, life.traffic
    first_at = account.first_byte_at
    if traffic is None or response_tokens < 2 or not first_at:
        return
    traffic.times.add(
        first_at - account.sent_at,
        response_tokens - 1,
        now - first_at,
        is_queued=_has_queue(attempt.load.reading),
    )


def _has_queue(reading: EngineReading | None) -> bool:
    """Whether requests wait for places in an engine's batch, or it is not known. Those that come within one
    step, or beside a long prefill, wait too, but are few."""
    if reading is None or reading.waiting is None:
        return True
    if not reading.waiting:
        return False
    is_full = reading.kv_usage is not None and reading.kv_usage > FULL_KV
    return is_full or reading.waiting > (reading.running or 0) * FEW_WAITING


def _learn_response(life: Life, attempt: Attempt, usage: Usage) -> None:
    """Tokens that an endpoint generated after a prefilled prompt are in its cache too."""
    decision = life.decision
    scheduled = decision.scheduled
    if not scheduled.prefix:
        return
    if not scheduled.block_ends:  # all blocks have the same number of tokens
        blocks = (usage.prompt + usage.completion) / scheduled.block_tokens
        life.plane.prefixes.responded(scheduled.prefix, attempt.load, blocks)
    elif decision.prompt_bytes:
        units = decision.prompt_bytes / hashing.BLOCK_BYTES + usage.completion / scheduled.block_tokens
        held = bisect_right(scheduled.block_ends, units)
        life.plane.prefixes.responded(scheduled.prefix, attempt.load, held)
