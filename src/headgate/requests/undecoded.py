"""Decisions about requests whose bodies are not JSON, and which so name no model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate import scheduling
from headgate.fleet.prefix import hashing
from headgate.requests.deciding.priorities import priority_of
from headgate.requests.decision import Decision

if TYPE_CHECKING:
    from headgate.engines.vllm_grpc import Prompt
    from headgate.requests.client import ClientRequest
    from headgate.requests.deciding.surroundings import Surroundings
    from headgate.requests.destinations import Destination

BYTES_PER_TOKEN: Final = 4


def decide(
    known: Surroundings,
    request: ClientRequest,
    destination: Destination,
    *,
    prompt: Prompt | None = None,
) -> Decision:
    """Send the request to this destination with its body unchanged. `prompt`: what is known of its prompt."""
    decision = Decision()
    decision.match, decision.target, decision.pool = destination
    decision.stream = prompt is not None and prompt.is_stream
    decision.body = bytes(request.body)
    pool = destination.pool
    content = b"" if prompt is None else prompt.content
    prompt_tokens = len(content or request.body) // BYTES_PER_TOKEN
    if prompt is not None and prompt.tokens:
        prompt_tokens = prompt.tokens
    prefix: Sequence[int] = ()
    blocks = hashing.USUAL
    if content and pool.policy.uses_prefix:
        if pool.policy.first_block_bytes:
            blocks = hashing.blocks_from(pool.policy.first_block_bytes)
        prefix = hashing.hashes(content, hashing.seed("", b""), blocks)
    most_tokens = prompt.most_tokens if prompt is not None else None
    decision.scheduled = scheduling.Request(
        model="",
        prompt_tokens=prompt_tokens,
        prefix=prefix,
        block_tokens=hashing.BLOCK_BYTES * prompt_tokens / len(content) if prefix else 0.0,
        block_ends=blocks.ends if prefix else (),
        output_tokens=known.sizes.answers.expected("", most_tokens),
        priority=priority_of(known, destination, request),
        header=request.header,
    )
    return decision
