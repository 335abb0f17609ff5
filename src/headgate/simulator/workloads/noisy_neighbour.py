"""One tenant floods the fleet for a while: what the others notice of it."""

from __future__ import annotations

import random
from typing import Annotated

from headgate.simulator.traces import TimedRequest
from headgate.simulator.workloads.workload import Workload, says, tokens


class NoisyNeighbour(Workload, frozen=True, kw_only=True):
    """Quiet tenants at an even rate; a noisy one that sends bursts of long prompts. They share nothing."""

    quiet_tenants: Annotated[int, says("Tenants beside the noisy one.", ge=1, le=10_000)] = 4
    noise_share: Annotated[float, says("Share of requests that the noisy one sends.", ge=0, le=1)] = 0.5
    noise_every_s: Annotated[float, says("Seconds from the start of a burst to the next.", ge=0.1)] = 30.0
    noise_lasts_s: Annotated[float, says("Seconds that a burst lasts.", ge=0.01)] = 5.0
    noise_tokens: Annotated[int, tokens("a prompt of the noisy one")] = 4000
    prompt_tokens: Annotated[int, tokens("a prompt of the others")] = 500
    output_tokens: Annotated[int, tokens("an answer")] = 200

    def generate(self, rng: random.Random) -> list[TimedRequest]:
        noisy = round(self.requests * self.noise_share)
        at_s = [rng.uniform(0, self.requests / self.rate) for _ in range(self.requests)]
        told = [
            self._request(self._in_burst(each), "noisy", self.noise_tokens, rng)
            if number < noisy
            else self._request(each, f"quiet-{number % self.quiet_tenants}", self.prompt_tokens, rng)
            for number, each in enumerate(at_s)
        ]
        return sorted(told, key=lambda request: request.at_s)

    def _in_burst(self, at_s: float) -> float:
        """The time at which a request is sent by who sends all of a period in its first seconds."""
        periods, within_s = divmod(at_s, self.noise_every_s)
        lasts_s = min(self.noise_lasts_s, self.noise_every_s)
        return periods * self.noise_every_s + within_s * lasts_s / self.noise_every_s

    def _request(self, at_s: float, tenant: str, mean: int, rng: random.Random) -> TimedRequest:
        return TimedRequest(
            at_s=at_s,
            prompt_tokens=self.length(mean, rng),
            output_tokens=self.length(self.output_tokens, rng),
            tenant=tenant,
        )
