"""What became of one request of a replay."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.simulator.traces import TimedRequest

Status = Literal["served", "refused", "failed"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One request, which endpoint had it, and when it got its tokens. Times are simulated seconds."""

    request: TimedRequest
    status: Status
    """Refused ones were never begun; failed ones were, and did not get their whole answer."""
    endpoint: int | None
    """Index into the fleet's endpoints; None if none was found."""
    ttft_s: float | None = None
    """From arrival to the first token."""
    tpot_s: float | None = None
    """Mean time of each token after the first; None for answers of one token."""
    ended_s: float
    cached_tokens: int = 0
    """Of the prompt: found in the endpoint's cache."""
    preemptions: int = 0


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """What a request must keep to count as good."""

    ttft_s: float
    tpot_s: float | None = None

    def met(self, outcome: Outcome) -> bool:
        """A request that was not served meets nothing; one token has no time between tokens to miss."""
        if outcome.status != "served" or outcome.ttft_s is None or outcome.ttft_s > self.ttft_s:
            return False
        return self.tpot_s is None or outcome.tpot_s is None or outcome.tpot_s <= self.tpot_s
