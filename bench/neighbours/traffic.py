"""The requests of the tenants: seven at their share of the fleet, the eighth at ten times its share."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from headgate.traffic.traces import TimedRequest

NOISY = "noisy"
TENANTS = 8
QUIET = tuple(f"tenant-{number}" for number in range(1, TENANTS))


@dataclass(frozen=True)
class Traffic:
    """`rate` is the fleet's capacity, in requests of the quiet tenants per second.

    Shares are equal parts of `load` of that. The noisy tenant requests `times` its share of the work: with
    requests that are `longer` times as long, and the rest by their number.
    """

    rate: float
    load: float
    times: float
    longer: float
    seconds: float
    prompt_tokens: int
    output_tokens: int
    seed: int

    @property
    def share(self) -> float:
        """Requests per second of a quiet tenant."""
        return self.rate * self.load / TENANTS

    def quiet(self, tenant: str) -> list[TimedRequest]:
        """The requests of a tenant that keeps to its share: the same with and without the noise."""
        return list(self._asked(tenant, self.share, 1.0))

    def requests(self, *, noise: bool) -> list[TimedRequest]:
        """The requests of all tenants, by time."""
        asked = [request for tenant in QUIET for request in self.quiet(tenant)]
        if noise:
            asked += self._asked(NOISY, self.share * self.times / self.longer, self.longer)
        return sorted(asked, key=lambda request: request.at_s)

    def _asked(self, tenant: str, rate: float, longer: float) -> Iterator[TimedRequest]:
        """Random (Poisson) arrivals, prompts from a half to one and a half times their mean."""
        rng = random.Random(f"{self.seed}/{tenant}")
        at_s = rng.expovariate(rate)
        while at_s < self.seconds:
            yield TimedRequest(
                at_s=at_s,
                prompt_tokens=round(self.prompt_tokens * longer * rng.uniform(0.5, 1.5)),
                output_tokens=max(round(self.output_tokens * rng.uniform(0.5, 1.5)), 1),
                tenant=tenant,
            )
            at_s += rng.expovariate(rate)
