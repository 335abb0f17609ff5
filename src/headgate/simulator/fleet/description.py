"""The engines of a fleet, and the settings of the gateway in front of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from headgate.fleet import EjectionPolicy, RetryBudgetPolicy
from headgate.flow.capacity import CapacitySettings
from headgate.flow.queue import FlowSettings
from headgate.simulator.fleet.cold_start import ColdStart, keeps_requests
from headgate.simulator.model import ConfigError, EngineConfig, FaultSchedule, RemoteStore

Role = Literal["both", "prefill", "decode"]


class EngineGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Equal engines. Their endpoints are named `<name>-0`, `<name>-1`, ..."""

    name: str
    engine: EngineConfig
    count: int = 1
    role: Role = "both"
    """With prefill and decode on separate engines: the side that these serve."""
    labels: Mapping[str, str] = {}
    """Labels of the endpoints' Pods."""
    weight: float = 1.0
    """Share of the requests for each of them, relative to other groups; used if the policy is Weighted."""
    cold_start: ColdStart | None = None
    """How these engines start, and when they run; None runs all of them all the time."""


class FleetDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A simulated fleet. Validated on construction."""

    groups: tuple[EngineGroup, ...]
    scrape_s: float = 0.0
    """How often the gateway reads each engine's metrics; 0 for never."""
    max_requests: int = sys.maxsize
    """Concurrent requests per endpoint; if every endpoint is full, requests are rejected."""
    retries: int = 1
    """Retries of a request whose endpoint failed before its first token."""
    retry_budget: RetryBudgetPolicy = RetryBudgetPolicy()
    """Limits the total number of retries."""
    ejection: EjectionPolicy = EjectionPolicy()
    """When the gateway ejects endpoints that fail or hang."""
    faults: FaultSchedule = FaultSchedule()
    """Scheduled faults, by endpoint name."""
    link_bytes_per_s: float = 40e9
    """Bandwidth of the link that carries all KV cache transfers; 40 GB/s is InfiniBand NDR."""
    link_latency_s: float = 0.0
    """Delay before the first byte of each transfer."""
    remote_tokens: int = 0
    """Prompts with fewer uncached tokens than this are prefilled on the decode engine."""
    flow: FlowSettings | None = None
    """How requests queue in the gateway while the fleet is saturated; None sends them immediately."""
    capacity: CapacitySettings = CapacitySettings()
    """When the fleet is saturated."""

    @property
    def is_paired(self) -> bool:
        """Whether any group only prefills or only decodes."""
        return any(group.role != "both" for group in self.groups)

    def new_store(self) -> RemoteStore | None:
        """A new, empty store for the blocks that engines share; None if no group uses one."""
        sizes = (group.engine.remote_kv_blocks for group in self.groups)
        return next((RemoteStore(blocks) for blocks in sizes if blocks), None)

    def __post_init__(self) -> None:
        problems = [
            *self._of_groups(),
            *(f"groups: {problem}" for problem in store_problems(self.groups)),
            *self._out_of_range(),
            *self._of_health(),
        ]
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
            problems += self._of_cold_start(group, f"groups[{at}].cold_start")
        if self.groups and all(group.role == "prefill" for group in self.groups):
            problems.append("groups: engines that only prefill need others that decode")
        return problems

    def _of_cold_start(self, group: EngineGroup, path: str) -> list[str]:
        if group.cold_start is None:
            return []
        problems = [
            f"{path}{'.' if field else ''}{field}: {message}"
            for field, message in group.cold_start.problems(group.count, group.role)
        ]
        if not keeps_requests(self.flow):
            problems.append(
                f"{path}: engines start when requests wait; set `flow`, with is_on and no_endpoint_ttl_s"
            )
        return problems

    def _out_of_range(self) -> list[str]:
        problems = []
        if not self.link_bytes_per_s > 0:
            problems.append(f"link_bytes_per_s: must be more than 0, got {self.link_bytes_per_s}")
        if not 0 <= self.link_latency_s < math.inf:
            problems.append(f"link_latency_s: must be seconds, got {self.link_latency_s}")
        if not (math.isfinite(self.scrape_s) and self.scrape_s >= 0):
            problems.append(f"scrape_s: must be seconds, or 0 for never, got {self.scrape_s}")
        if self.max_requests < 1:
            problems.append(f"max_requests: must be at least 1, got {self.max_requests}")
        if self.retries < 0:
            problems.append(f"retries: must not be negative, got {self.retries}")
        return problems

    def _of_health(self) -> list[str]:
        ejection, budget = self.ejection, self.retry_budget
        least = {
            "ejection.failures": (ejection.failures, 0),
            "ejection.base_s": (ejection.base_s, 0),
            "ejection.longest_s": (ejection.longest_s, ejection.base_s),
            "ejection.slow_start_s": (ejection.slow_start_s, 0),
            "ejection.hang_s": (ejection.hang_s, 0),
            "ejection.hang_requests": (ejection.hang_requests, 1),
            "retry_budget.share": (budget.share, 0),
            "retry_budget.floor_per_s": (budget.floor_per_s, 0),
        }
        problems = [
            f"{name}: must be at least {bound:g}, got {value:g}"
            for name, (value, bound) in least.items()
            if not value >= bound
        ]
        if not budget.window_s > 0:
            problems.append(f"retry_budget.window_s: must be more than 0, got {budget.window_s:g}")
        return problems


def store_problems(groups: Sequence[EngineGroup]) -> list[str]:
    """Reasons why groups cannot share one store: it has one size, and blocks of one kind."""
    sharing = [group for group in groups if group.engine.remote_kv_blocks]
    return [
        f"engines that share a remote store have the same {name}, but {sharing[0].name} has "
        f"{getattr(sharing[0].engine, name)} and {group.name} has {getattr(group.engine, name)}"
        for group in sharing[1:]
        for name in ("remote_kv_blocks", "block_size", "kv_bytes_per_token")
        if getattr(group.engine, name) != getattr(sharing[0].engine, name)
    ]
