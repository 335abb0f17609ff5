"""Settings of saturation detectors and ceilings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

import msgspec

from headgate.flow.capacity.concurrency import ConcurrencyMode
from headgate.flow.capacity.predicted import TARGET_S

DetectorName: TypeAlias = Literal[
    "predicted-work",
    "utilization-detector",
    "concurrency-detector",
    "in-flight",
    "session-room",
    "pace",
]
"""The first is Headgate's own, the next two have llm-d's names, the others are Kthena's."""
CeilingName: TypeAlias = Literal[
    "static-usage-limit-policy", "priority-holdback-policy", "soft-reflective-ceiling-policy"
]

DETECTORS: tuple[DetectorName, ...] = get_args(DetectorName)
CEILINGS: tuple[CeilingName, ...] = get_args(CeilingName)
MODES: tuple[ConcurrencyMode, ...] = get_args(ConcurrencyMode)


class CeilingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Saturation ceilings per priority."""

    policy: CeilingName = "static-usage-limit-policy"
    ceiling: float = 1.0
    """static-usage-limit-policy: the ceiling of all priorities."""
    least: float = 0.5
    """priority-holdback-policy: the ceiling of the lowest priority."""
    most: float = 1.0
    """priority-holdback-policy: the ceiling of the highest priority."""
    domain: Literal["rank", "value"] = "rank"
    """priority-holdback-policy: equal steps (rank), or in proportion to the priorities (value)."""

    def problems(self) -> Iterator[str]:
        if self.policy not in CEILINGS:
            yield f"policy: no policy is called {self.policy!r}; there are {', '.join(CEILINGS)}"
        if not 0 < self.ceiling <= 1:
            yield f"ceiling: must be more than 0 and at most 1, got {self.ceiling}"
        if not 0 <= self.least < 1:
            yield f"least: must be from 0 to less than 1, got {self.least}"
        if not 0 < self.most <= 1:
            yield f"most: must be more than 0 and at most 1, got {self.most}"
        if self.least > self.most:
            yield f"least: must not be more than `most`, got {self.least} and {self.most}"
        if self.domain not in ("rank", "value"):
            yield f"domain: must be rank or value, got {self.domain!r}"


class CapacitySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a pool's capacity. Validated on creation: a ValueError names every wrong field."""

    detector: DetectorName = "predicted-work"
    ceilings: CeilingSettings = CeilingSettings()
    target_s: float = TARGET_S
    """predicted-work: the longest queue of an endpoint, in seconds."""
    without_reading: int = 256
    """predicted-work: limit of requests on an endpoint without readings."""
    queue_depth: int = 5
    """utilization-detector: queued requests of a full engine."""
    kv_usage: float = 0.8
    """utilization-detector: KV cache usage of a full engine, 0 to 1."""
    stale_s: float = 0.2
    """utilization-detector: the greatest age of a reading."""
    mode: ConcurrencyMode = "requests"
    max_requests: int = 100
    """concurrency-detector: per endpoint."""
    max_tokens: int = 1_000_000
    """concurrency-detector: per endpoint."""
    most: int = 100
    """in-flight: requests over all endpoints."""
    per_endpoint: int = 16
    """session-room: requests per endpoint, on average."""
    per_s: float = 100.0
    """pace: requests per second."""

    def __post_init__(self) -> None:
        problems = [f"ceilings.{problem}" for problem in self.ceilings.problems()]
        if self.detector not in DETECTORS:
            names = ", ".join(DETECTORS)
            problems.append(f"detector: no detector is called {self.detector!r}; there are {names}")
        if self.mode not in MODES:
            problems.append(f"mode: must be one of {', '.join(MODES)}, got {self.mode!r}")
        for name in ("target_s", "kv_usage", "stale_s", "per_s"):
            if not getattr(self, name) > 0:
                problems.append(f"{name}: must be more than 0, got {getattr(self, name)}")
        for name in ("without_reading", "queue_depth", "max_requests", "max_tokens", "most", "per_endpoint"):
            if getattr(self, name) < 1:
                problems.append(f"{name}: must be at least 1, got {getattr(self, name)}")
        if problems:
            raise ValueError("; ".join(problems))
