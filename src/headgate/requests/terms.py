"""The conditions for separate prefill and decode of a request: its API, its connector, the thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate import routing, scheduling
from headgate.engines import transfer

if TYPE_CHECKING:
    from headgate.requests.pool_state import PoolState

NO_FORM = "form"
"""Why a request is served whole if its API has no prompts."""


def terms(
    pool: PoolState, phases: routing.PrefillDecode, body: transfer.Body | None, default_tokens: int
) -> scheduling.Terms:
    """The threshold is the ModelServer's, else that of its scheduling policy, else `default_tokens`."""
    connector = transfer.connector(phases.connector)
    remote_tokens = phases.remote_tokens
    if remote_tokens is None:
        remote_tokens = pool.policy.remote_tokens
    return scheduling.Terms(
        remote_tokens=default_tokens if remote_tokens is None else remote_tokens,
        why_not=connector.why_not(body) if body is not None else NO_FORM,
        decodes_alone=connector.decodes_alone or body is None,
        keeps_prefix=connector.keeps_prefix,
    )


def in_words(decision: str, terms: scheduling.Terms) -> str:
    """Why the decoding endpoint also prefills the prompt."""
    words = {
        scheduling.SHORT: f"the prompt is shorter than {terms.remote_tokens} tokens",
        scheduling.CACHED: f"fewer than {terms.remote_tokens} tokens of the prompt are not in its cache",
        scheduling.NO_PREFILL: "no endpoint of its group that could prefill is ready and healthy",
        NO_FORM: "the API of the request has no prompts",
        "api": "the connector does not know this API",
        "n": "the connector supports one response per request, and several are requested",
        "prompts": "the connector supports one prompt per request, and there are several",
        "prompt_logprobs": "logprobs of the prompt are returned by the endpoint that prefills it",
        "stateful": "the request needs the engine that stored an earlier response",
    }
    return words.get(decision, decision)
