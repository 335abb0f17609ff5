"""How long to wait before trying again: exponential, bounded, and jittered so that clients spread out."""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Delays of `base_s`, twice that, and so on up to `cap_s`; each is between half of it and all of it."""

    base_s: float = 0.2
    cap_s: float = 30.0

    def delay_s(self, failures: int, rng: random.Random) -> float:
        """The wait after this many failures in a row, the first being 1."""
        doublings = min(max(failures - 1, 0), 60)
        return min(self.cap_s, self.base_s * 2.0**doublings) * rng.uniform(0.5, 1.0)
