"""Which engines there are, and how the gateway in front of them is set."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

import msgspec

from headgate.simulator.model import ConfigError, EngineConfig


class EngineGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Equal engines. Their endpoints are called `<name>-0`, `<name>-1`, ..."""

    name: str
    engine: EngineConfig
    count: int = 1
    labels: Mapping[str, str] = {}
    """What the endpoints' Pods are labelled with."""


class FleetDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Checked when it is made."""

    groups: tuple[EngineGroup, ...]
    scrape_s: float = 0.0
    """How often the gateway reads each engine's metrics; 0 for never."""
    max_requests: int = sys.maxsize
    """Of one endpoint at a time; if none has room, a request is refused."""
    retries: int = 1
    """Further attempts for a request whose endpoint failed before its first token."""

    def __post_init__(self) -> None:
        problems = [*self._of_groups(), *self._out_of_range()]
        if problems:
            raise ConfigError("; ".join(problems))

    def _of_groups(self) -> list[str]:
        problems = [] if self.groups else ["groups: name at least one group of engines"]
        names: set[str] = set()
        for at, group in enumerate(self.groups):
            if group.count < 1:
                problems.append(f"groups[{at}].count: must be at least 1, got {group.count}")
            if group.name in names:
                problems.append(f"groups[{at}].name: {group.name!r} is the name of another group too")
            names.add(group.name)
        return problems

    def _out_of_range(self) -> list[str]:
        problems = []
        if not (math.isfinite(self.scrape_s) and self.scrape_s >= 0):
            problems.append(f"scrape_s: must be seconds, or 0 for never, got {self.scrape_s}")
        if self.max_requests < 1:
            problems.append(f"max_requests: must be at least 1, got {self.max_requests}")
        if self.retries < 0:
            problems.append(f"retries: must not be negative, got {self.retries}")
        return problems
