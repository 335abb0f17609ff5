"""Bucket counts, and the bounds that the engines use."""

from bisect import bisect_left

TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_TIME_BUCKETS = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
LATENCY_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)


def token_count_buckets(largest: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50, ... up to the largest count that can occur."""
    series = (step * 10.0**power for power in range(12) for step in (1, 2, 5))
    return tuple(bound for bound in series if bound <= largest)


class Histogram:
    """Bucket counts. prometheus_client's own takes a lock and microseconds for each token."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, int]]:
        """Cumulative counts by upper bound, as Prometheus has them."""
        total = 0
        buckets = []
        for bound, here in zip((*map(repr, self._bounds), "+Inf"), self._counts, strict=True):
            total += here
            buckets.append((bound, total))
        return buckets
