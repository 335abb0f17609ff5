"""Made-up figures for the metrics page, to see what follows from them: constants or functions of time."""

import copy
import math
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headgate.kubeschema import duration
from headgate.simulator.server.metrics.series import Reading
from headgate.simulator.server.metrics.timings import Timings

Constant = Annotated[float, Meta(ge=0)]
Function = Annotated[
    str,
    Meta(
        pattern=r"^(oscillate|ramp|rampreset|squarewave):\d+(\.\d+)?:\d+(\.\d+)?:"
        r"\d+(\.\d+)?(ns|us|µs|ms|s|m|h)?$"
    ),
]
"""`name:start:end:period`, the period in seconds or with its unit."""
Figure = Constant | Function
Counted = Literal[
    "prompt_tokens",
    "generation_tokens",
    "prefix_cache_queries",
    "prefix_cache_hits",
    "stop",
    "length",
    "abort",
]
_OF_STATISTICS = {"prefix_cache_queries": "prefix_queries_total", "prefix_cache_hits": "prefix_hits_total"}
_HISTOGRAMS = {
    "time_to_first_token_seconds": "ttft",
    "inter_token_latency_seconds": "inter_token",
    "request_time_per_output_token_seconds": "tpot",
    "e2e_request_latency_seconds": "e2e",
    "request_queue_time_seconds": "queue",
    "request_inference_time_seconds": "inference",
    "request_prefill_time_seconds": "prefill",
    "request_decode_time_seconds": "decode",
    "request_prompt_tokens": "prompt_size",
    "request_generation_tokens": "output_size",
    "request_params_max_tokens": "asked_size",
}
"""The attributes of timings by vLLM's names."""
Observed = Literal[
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_inference_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "request_params_max_tokens",
]
Counts = Annotated[tuple[Annotated[int, Meta(ge=0, le=10**12)], ...], Meta(max_length=100)]
Names = Annotated[tuple[str, ...], Meta(max_length=1000)]


class FakeMetrics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the page shows in place of what is so; what is left out stays as it is."""

    running: Figure | None = None
    waiting: Figure | None = None
    kv_usage: Figure | None = None
    """From 0 to 1."""
    running_adapters: Names | None = None
    waiting_adapters: Names | None = None
    counters: dict[Counted, Figure] = {}
    """Totals: of tokens, and of requests that ended for a reason."""
    histograms: dict[Observed, Counts] = {}
    """How often each bucket had a value, the first bucket first; those that are left out had none."""

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
        for name, field in _OF_STATISTICS.items():
            if name in self.counters:
                changes[field] = round(value_at(self.counters[name], age_s))
        adapters = {
            name: names
            for name in ("running_adapters", "waiting_adapters")
            if (names := getattr(self, name)) is not None
        }
        statistics = msgspec.structs.replace(now, **changes)
        timings = self._timings(reading.timings, age_s)
        return msgspec.structs.replace(reading, statistics=statistics, timings=timings, **adapters)

    def _timings(self, true: Timings, age_s: float) -> Timings:
        """A copy with these counts."""
        if not (self.counters or self.histograms):
            return true
        told = copy.copy(true)
        told.finished_by_reason = true.finished_by_reason.copy()
        for name, figure in self.counters.items():
            total = round(value_at(figure, age_s))
            match name:
                case "prompt_tokens":
                    told.prompt_tokens = total
                case "generation_tokens":
                    told.output_tokens = total
                case "stop" | "length" | "abort":
                    told.finished_by_reason[name] = total
        for observed, counts in self.histograms.items():
            setattr(told, _HISTOGRAMS[observed], getattr(true, _HISTOGRAMS[observed]).with_counts(counts))
        return told


def value_at(figure: Figure, age_s: float) -> float:
    """A figure at a time since it was set.

    `oscillate` is a sine between start and end, `ramp` goes from one to the other once and `rampreset` in
    every period, `squarewave` is each for half a period.
    """
    if not isinstance(figure, str):
        return figure
    name, low, high, period = figure.split(":")
    start, end = float(low), float(high)
    period_s = duration.parse(period) if period[-1].isalpha() else float(period)
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
