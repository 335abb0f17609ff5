"""Scheduled faults of engines, as data for virtual and live engines alike.

A schedule says what is wrong with an engine at a given time; the driver of the engine carries it out. Times
are seconds since the run began.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from headgate.simulator.model.config import ConfigError

FaultKind = Literal["crash", "slow", "stall", "stop", "blackout", "stale", "unready", "latency", "error"]
"""
- `crash`: the process dies with all of its requests and its cache, and returns at the end.
- `slow`: every step takes `factor` times as long. Nothing else shows it: a gray failure.
- `stall`: no step begins; requests are accepted and wait.
- `stop`: the process does nothing, as after SIGSTOP. Connections are accepted, but nothing gets a response,
  not even metrics and model lists; everything continues at the end.
- `blackout`: the metrics page does not respond.
- `stale`: the metrics page keeps the values it had at the beginning.
- `unready`: the endpoint is not in its pool, while its requests continue; with `period_s` it flaps.
- `latency`: a `share` of requests reaches the engine `delay_s` late.
- `error`: a `share` of requests gets `status` immediately.
"""
ENDLESS: frozenset[FaultKind] = frozenset(
    {"crash", "slow", "blackout", "stale", "unready", "latency", "error"}
)
"""Kinds that may last forever: after an endless stall or stop, requests would never end."""
MAX_FLAPS = 10_000
TOO_MANY = 429


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault of some engines for some time. Validated as part of a `FaultSchedule`."""

    kind: FaultKind
    engines: str = "*"
    """Names of the affected engines, as a pattern with `*` and `?`."""
    at_s: float
    duration_s: float = math.inf
    factor: float = 1.0
    """For `slow`."""
    delay_s: float = 0.0
    """For `latency`."""
    status: int = 500
    """For `error`."""
    retry_after_s: float | None = None
    """For `error`: Retry-After in seconds, 0 for no such header; None is the default of engines, one second
    with 429 and otherwise no header.
    """
    share: float = 1.0
    """For `latency` and `error`: the probability that a request is affected."""
    period_s: float = 0.0
    """For `unready`: not ready in the first half of each period, ready in the second. 0 does not flap."""

    @property
    def until_s(self) -> float:
        return self.at_s + self.duration_s

    @property
    def rest_s(self) -> float | None:
        """Retry-After of an `error`; None if it has none."""
        if self.retry_after_s is None:
            return 1.0 if self.status == TOO_MANY else None
        return self.retry_after_s or None

    def is_on(self, now: float) -> bool:
        """Whether it is active: from `at_s` on, until before its end."""
        if not self.at_s <= now < self.until_s:
            return False
        if not self.period_s:
            return True
        halves = (now - self.at_s) / (self.period_s / 2)
        return math.floor(halves + 1e-6) % 2 == 0  # tolerates rounding at the times of `changes`

    def changes(self) -> list[float]:
        """When it becomes active and inactive."""
        times = [self.at_s]
        if self.period_s:
            half_s = self.period_s / 2
            flaps = math.ceil(self.duration_s / half_s)
            times += [self.at_s + flap * half_s for flap in range(1, flaps)]
        if math.isfinite(self.until_s):
            times.append(self.until_s)
        return times

    def problems(self) -> list[str]:
        """Its errors, each by field."""
        return [f"{field}: {problem}" for field, is_wrong, problem in self._checks() if is_wrong]

    def _checks(self) -> list[tuple[str, bool, str]]:
        kind = self.kind
        endless = not math.isfinite(self.duration_s)
        rest_s = self.retry_after_s
        flaps = self.period_s and self.duration_s / (self.period_s / 2) > MAX_FLAPS
        return [
            (
                "at_s",
                not (math.isfinite(self.at_s) and self.at_s >= 0),
                f"must be at least 0, got {self.at_s}",
            ),
            ("duration_s", not self.duration_s > 0, f"must be more than 0, got {self.duration_s}"),
            ("duration_s", endless and kind not in ENDLESS, f"a {kind} must end some time"),
            ("factor", not 0 < self.factor < math.inf, f"must be more than 0, got {self.factor}"),
            ("factor", kind == "slow" and self.factor == 1, "say how much slower: 2 takes twice as long"),
            ("delay_s", not 0 <= self.delay_s < math.inf, f"must be at least 0, got {self.delay_s}"),
            ("delay_s", kind == "latency" and self.delay_s == 0, "say how many seconds"),
            ("status", not 400 <= self.status <= 599, f"must be 400 to 599, got {self.status}"),
            (
                "retry_after_s",
                rest_s is not None and not 0 <= rest_s < math.inf,
                f"must be at least 0, got {rest_s}",
            ),
            ("retry_after_s", rest_s is not None and kind != "error", "only an `error` asks for a rest"),
            ("share", not 0 < self.share <= 1, f"must be more than 0 and at most 1, got {self.share}"),
            ("period_s", not 0 <= self.period_s < math.inf, f"must be at least 0, got {self.period_s}"),
            ("period_s", bool(self.period_s) and kind != "unready", "only `unready` flaps"),
            ("period_s", bool(flaps), f"would flap more than {MAX_FLAPS} times; give a duration_s"),
        ]


class FaultSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """All faults of a run. Validated on construction: `ConfigError` has all errors."""

    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        problems = [
            f"faults[{at}].{problem}" for at, fault in enumerate(self.faults) for problem in fault.problems()
        ]
        if problems:
            raise ConfigError("; ".join(problems))

    @classmethod
    def from_objects(cls, objects: Sequence[Any]) -> FaultSchedule:
        """From JSON or YAML: a list of objects with the fields of `Fault`."""
        faults, problems = [], []
        for at, given in enumerate(objects):
            try:
                faults.append(msgspec.convert(given, Fault))
            except msgspec.ValidationError as error:
                problems.append(f"faults[{at}]: {error}")
        if problems:
            raise ConfigError("; ".join(problems))
        return cls(faults=tuple(faults))

    def of(self, engine: str) -> EngineFaults:
        """The faults of the engine with this name."""
        return EngineFaults(tuple(fault for fault in self.faults if fnmatchcase(engine, fault.engines)))


class EngineFaults:
    """The faults of one engine."""

    __slots__ = ("_faults",)

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self._faults = tuple(faults)

    def __bool__(self) -> bool:
        return bool(self._faults)

    def changes(self) -> list[float]:
        """Times at which the results below may change, in order."""
        return sorted({time_s for fault in self._faults for time_s in fault.changes()})

    def is_down(self, now: float) -> bool:
        return self._any("crash", now)

    def is_ready(self, now: float) -> bool:
        return not self._any("unready", now)

    def slowdown(self, now: float) -> float:
        """Factor on the time of steps; several faults multiply."""
        return math.prod(fault.factor for fault in self._on("slow", now))

    def stalled_until(self, now: float) -> float:
        """When steps begin again; `now` if nothing stalls them."""
        stalls = (*self._on("stall", now), *self._on("stop", now))
        return max((fault.until_s for fault in stalls), default=now)

    def stopped_until(self, now: float) -> float:
        """When the process continues; `now` if it is not stopped."""
        return max((fault.until_s for fault in self._on("stop", now)), default=now)

    def has_metrics(self, now: float) -> bool:
        return not self._any("blackout", now) and not self._any("stop", now)

    def has_old_metrics(self, now: float) -> bool:
        """Whether the metrics page still shows values from the beginning of a fault."""
        return self._any("stale", now)

    def late_s(self, now: float, draw: float) -> float:
        """How late a request reaches the engine; `draw` is a random number from 0 to 1."""
        return sum(fault.delay_s for fault in self._on("latency", now) if draw < fault.share)

    def error(self, now: float, draw: float) -> Fault | None:
        """The error for a request; None for no error."""
        return next((fault for fault in self._on("error", now) if draw < fault.share), None)

    def _on(self, kind: FaultKind, now: float) -> list[Fault]:
        return [fault for fault in self._faults if fault.kind == kind and fault.is_on(now)]

    def _any(self, kind: FaultKind, now: float) -> bool:
        return any(fault.kind == kind and fault.is_on(now) for fault in self._faults)
