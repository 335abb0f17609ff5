"""Decisions about requests whose bodies are not JSON, and which so name no model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate import scheduling
from headgate.requests.decision import Decision, priority_of

if TYPE_CHECKING:
    from headgate.requests.client import ClientRequest
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.destinations import Destination

BYTES_PER_TOKEN: Final = 4


def decide(
    plane: DataPlane,
    request: ClientRequest,
    destination: Destination,
    *,
    prompt_tokens: int | None = None,
    most_tokens: int | None = None,
    is_stream: bool = False,
) -> Decision:
    """Send the request to this destination with its body unchanged. `prompt_tokens` and `most_tokens`: of the
    prompt and of the longest response, if they are known."""
    decision = Decision()
    decision.match, decision.target, decision.pool = destination
    decision.stream = is_stream
    decision.body = bytes(request.body)
    if prompt_tokens is None:
        prompt_tokens = len(request.body) // BYTES_PER_TOKEN
    decision.scheduled = scheduling.Request(
        model="",
        prompt_tokens=prompt_tokens,
        output_tokens=plane.sizes.answers.expected("", most_tokens),
        priority=priority_of(plane, destination, request),
        header=request.header,
    )
    return decision
