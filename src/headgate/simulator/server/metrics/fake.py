"""Made-up figures for the metrics page, to see what follows from them: constants or functions of time."""

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.simulator.server.metrics.series import Reading

Constant = Annotated[float, Meta(ge=0)]
Function = Annotated[
    str, Meta(pattern=r"^(oscillate|ramp|rampreset|squarewave):\d+(\.\d+)?:\d+(\.\d+)?:\d+(\.\d+)?$")
]
"""`name:start:end:period`, the period in seconds."""
Figure = Constant | Function
Names = Annotated[tuple[str, ...], Meta(max_length=1000)]


class FakeMetrics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the page shows in place of what is so; what is left out stays as it is."""

    running: Figure | None = None
    waiting: Figure | None = None
    kv_usage: Figure | None = None
    """From 0 to 1."""
    running_adapters: Names | None = None
    waiting_adapters: Names | None = None

    def over(self, reading: Reading, age_s: float) -> Reading:
        """A reading with these figures, as they are so long after they were set."""
        now = reading.statistics
        changes: dict[str, int] = {}
        if self.running is not None:
            changes["running"] = round(value_at(self.running, age_s))
        if self.waiting is not None:
            changes["waiting"] = round(value_at(self.waiting, age_s))
        if self.kv_usage is not None:
            changes["kv_blocks_used"] = round(min(1.0, value_at(self.kv_usage, age_s)) * now.kv_blocks)
        adapters = {
            name: names
            for name in ("running_adapters", "waiting_adapters")
            if (names := getattr(self, name)) is not None
        }
        statistics = msgspec.structs.replace(now, **changes)
        return msgspec.structs.replace(reading, statistics=statistics, **adapters)


def value_at(figure: Figure, age_s: float) -> float:
    """A figure at a time since it was set.

    `oscillate` is a sine between start and end, `ramp` goes from one to the other once and `rampreset` in
    every period, `squarewave` is each for half a period.
    """
    if not isinstance(figure, str):
        return figure
    name, *numbers = figure.split(":")
    start, end, period_s = map(float, numbers)
    turns = age_s / period_s if period_s else 1.0
    match name:
        case "oscillate":
            return (start + end) / 2 + (end - start) / 2 * math.sin(2 * math.pi * turns)
        case "ramp":
            return start + (end - start) * min(1.0, turns)
        case "rampreset":
            return start + (end - start) * (turns % 1)
        case _:
            return start if turns % 1 < 0.5 else end
