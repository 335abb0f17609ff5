"""The settings that decisions about requests depend on, in one value that every shell fills in."""

from __future__ import annotations

from typing import Any

import msgspec


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds."""

    max_requests: int
    """That one endpoint may have from here at a time."""
    retries: int
    """After the first attempt of a request, where its pool does not say how many."""
    response_timeout_s: float
    """Until the head of a response that is not streamed, where the pool does not say."""
    stream_response_timeout_s: float
    """The same of one that is streamed."""
    idle_timeout_s: float
    """For which an endpoint may be silent amid its response, or a client read nothing of it."""
    remote_min_tokens: int
    """From how many uncached tokens on another endpoint prefills a prompt, where nobody else says."""
    ask_tokens_again_s: float
    """Until so long after its arrival, a request may ask once more for tokens that are counted elsewhere."""
    believes_objectives: bool
    """Whether all clients may name an objective, and not trusted ones only."""
    policy: str
    """The scheduling policy of pools that name none."""
    plan: dict[str, Any] | None = None
    """The content of a scheduler's configuration file."""
    allow_experimental_plugins: bool = False
