"""The result of each request of a run."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.simulator.model import EngineStatistics

Outcome = Literal["served", "refused", "failed"]
"""`refused`: there was no endpoint to send it to, or the engine rejected it; `failed`: the endpoint broke
off, and retries did not help.
"""


class RequestRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One request, as its client saw it. Times are in seconds since the run began."""

    number: int
    """Its index among the requests of the run."""
    arrived_s: float
    ended_s: float
    outcome: Outcome
    endpoint: str
    """The last endpoint it was sent to; empty if none."""
    prefill_endpoint: str = ""
    """Where the prompt was prefilled, if elsewhere."""
    attempts: int
    prompt_tokens: int
    output_tokens: int
    """Tokens that arrived."""
    cached_tokens: int = 0
    """Prompt tokens found in the cache of the engine that served it."""
    expected_cached_tokens: int = 0
    """Cached tokens expected by the policy."""
    expected_first_token_s: float | None = None
    """Seconds to the first token predicted by the policy, if it predicts them."""
    first_token_s: float | None = None
    started_s: float | None = None
    """When an engine started to work on it."""
    preemptions: int = 0
    session: int = -1
    adapter: str = ""
    tenant: str = ""
    priority: int = 0
    queued_s: float = 0.0
    """How long it was queued in the gateway."""
    why: str = ""
    """Why it was not dispatched, in one word; empty if it was."""

    @property
    def ttft_s(self) -> float | None:
        """From arrival to the first token, including retries and queueing."""
        return None if self.first_token_s is None else self.first_token_s - self.arrived_s

    @property
    def tpot_s(self) -> float | None:
        """Mean time per token after the first."""
        if self.first_token_s is None or self.output_tokens < 2:
            return None
        return (self.ended_s - self.first_token_s) / (self.output_tokens - 1)

    @property
    def latency_s(self) -> float:
        return self.ended_s - self.arrived_s


class EngineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One engine at the end of a run."""

    name: str
    group: str
    requests: int
    """Requests sent to it."""
    busy_s: float
    """Total working time, including before crashes."""
    energy_j: float = 0.0
    """For `up_s`."""
    dollars: float = 0.0
    """For `up_s`."""
    crashes: int = 0
    starts: int = 0
    """How often it was started because requests were queued."""
    up_s: float = 0.0
    """How long it ran or loaded its model: energy and cost are for this time."""
    ejections: int = 0
    """How often the gateway ejected it, for failures or because it hung."""
    statistics: EngineStatistics
    """Since it last started."""
