"""What the counts at the end of an answer teach: bytes per token, how long answers are, how fast tokens come,
and where caches hold more than the prompt, or less than believed.

An engine that reports far fewer cached tokens than was believed has lost what it had, to requests of others
or in a restart. This prompt it holds again, now that it has prefilled it; but as caches lose first what was
used least recently, all that was used before the part that was missing is gone as well, and is forgotten.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from headgate.fleet.prefix import hashing

if TYPE_CHECKING:
    from headgate.fleet import Booking
    from headgate.gateway.exchange import Exchange
    from headgate.gateway.proxy import Proxy
    from headgate.requests.usage import Usage

MIN_TOKENS = 1024
"""Of smaller beliefs, too little is known to be sure: tokens are estimated."""
FAR_FEWER = 0.5
SURE_AFTER_S = 30.0
"""What was sent more recently may not have been prefilled yet as the request was scheduled, so that the
engine could not use it."""


def learn(proxy: Proxy, exchange: Exchange, usage: Usage, booking: Booking | None, now: float) -> None:
    """Takes the counts of a request that was served, at its end."""
    decision, prompt_tokens = exchange.decision, usage.prompt
    if decision.prompt_bytes and prompt_tokens:
        proxy.prompt_sizes.learn(
            decision.scheduled.model, decision.prompt_bytes, prompt_tokens, decision.prompt_amounts
        )
    answer_tokens = usage.completion
    if answer_tokens:
        proxy.answer_sizes.learn(decision.scheduled.model, answer_tokens)
        if decision.stream and booking is not None:
            booking.paced(answer_tokens, now)
        _learn_answer(proxy, exchange, answer_tokens)
    pool, choice, cached = exchange.pool, exchange.choice, usage.cached
    if cached is None or choice is None or pool is None or not pool.policy.uses_prefix:
        return
    if exchange.handover is not None:
        return  # what is cached where an answer is generated was handed over from where it was prefilled
    proxy.recorder.cached(pool, prompt_tokens, choice.cached_tokens, cached)
    used_at = exchange.prefix_used_at
    if used_at is None or used_at >= exchange.attempt_at - SURE_AFTER_S:
        return
    if cached < FAR_FEWER * choice.cached_tokens:
        proxy.prefixes.forget_until(used_at, choice.load)


def _learn_answer(proxy: Proxy, exchange: Exchange, answer_tokens: int) -> None:
    """What an endpoint has generated behind a prompt that it had prefilled is in its cache as well."""
    decision, choice = exchange.decision, exchange.choice
    scheduled = decision.scheduled
    if choice is None or exchange.handover is not None or not scheduled.prefix or not decision.prompt_bytes:
        return
    units = decision.prompt_bytes / hashing.BLOCK_BYTES + answer_tokens / scheduled.block_tokens
    proxy.prefixes.answered(scheduled.prefix, choice.load, bisect_right(scheduled.block_ends, units))
