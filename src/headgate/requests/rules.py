"""The settings that decisions about requests depend on, as one value that every shell provides."""

from __future__ import annotations

from typing import Any

import msgspec


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in seconds."""

    max_requests: int
    """In flight on one endpoint from this process."""
    retries: int
    """After the first attempt of a request, unless its pool sets a number."""
    response_timeout_s: float
    """For the response head of a request that is not streamed, unless the pool sets a timeout."""
    stream_response_timeout_s: float
    """The same for a streamed request."""
    idle_timeout_s: float
    """How long an endpoint may be silent during its response, or a client may read nothing of it."""
    remote_min_tokens: int
    """Uncached tokens from which another endpoint prefills a prompt, unless the pool or policy sets a
    threshold."""
    ask_tokens_again_s: float
    """For this long after its arrival, a request may ask again for tokens that are counted elsewhere."""
    believes_objectives: bool
    """Whether every client may name an objective, not only trusted ones."""
    policy: str
    """The scheduling policy of pools that name none."""
    plan: dict[str, Any] | None = None
    """The content of a scheduler's configuration file."""
    allow_experimental_plugins: bool = False
    notes_scores: bool = False
    """Whether choices have the scores of all candidates."""
