"""Settings that /admin/config reads and changes: latencies and failures."""

from __future__ import annotations

import random
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from headgate.kubeschema import duration
from headgate.simulator.model.config import ConfigError
from headgate.simulator.model.latencies import MAX_DEVIATION, Calculator, Latencies

Time = Annotated[str, Meta(max_length=40)] | Annotated[int, Meta(ge=0, le=10**15)]


class LatencySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unset values are the profile's."""

    latency_calculator: Calculator = ""
    time_to_first_token: Time | None = None
    time_to_first_token_std_dev: Time | None = None
    prefill_overhead: Time | None = None
    prefill_time_per_token: Time | None = None
    prefill_time_std_dev: Time | None = None
    inter_token_latency: Time | None = None
    inter_token_latency_std_dev: Time | None = None
    time_factor_under_load: float | None = None
    kv_cache_transfer_latency: Time | None = None
    """Time to transfer a prompt from another engine, whatever its size."""
    kv_cache_transfer_latency_std_dev: Time | None = None
    kv_cache_transfer_time_per_token: Time | None = None
    kv_cache_transfer_time_std_dev: Time | None = None

    def latencies(self) -> Latencies:
        """Latencies of the engine. Raises ConfigError that names an invalid time."""
        return Latencies(
            latency_calculator=self.latency_calculator,
            time_factor_under_load=self.time_factor_under_load,
            **{name: seconds(name, getattr(self, name)) for name in _ENGINE_TIMES},
        )

    def transfer_s(self, tokens: int) -> tuple[float, float]:
        """Mean and standard deviation of the time to transfer `tokens` tokens from another engine."""
        is_constant = self.latency_calculator == "constant" or not (
            self.latency_calculator or self.kv_cache_transfer_latency is None
        )
        constant_s = self._seconds("kv_cache_transfer_latency")
        per_token_s = self._seconds("kv_cache_transfer_time_per_token")
        if is_constant:
            return constant_s, self._seconds("kv_cache_transfer_latency_std_dev")
        return tokens * per_token_s, self._seconds("kv_cache_transfer_time_std_dev")

    def check(self) -> None:
        """Raise ConfigError for a deviation that is too large, or an invalid time."""
        self.latencies()
        base_s = self._seconds("kv_cache_transfer_latency")
        if self._seconds("kv_cache_transfer_latency_std_dev") > MAX_DEVIATION * base_s + 1e-9:
            raise ConfigError(
                "kv-cache-transfer-latency-std-dev: must be at most 30 % of kv-cache-transfer-latency, "
                f"which is {base_s:g} s"
            )
        for name in ("kv_cache_transfer_time_per_token", "kv_cache_transfer_time_std_dev"):
            self._seconds(name)

    def _seconds(self, name: str) -> float:
        return seconds(name, getattr(self, name)) or 0.0


_ENGINE_TIMES = tuple(
    name
    for name in Latencies.__struct_fields__
    if name not in ("latency_calculator", "time_factor_under_load")
)


def drawn(mean_s: float, deviation_s: float, rng: random.Random) -> float:
    """A random time around a mean, 0.3 to 1.7 times as long."""
    if not deviation_s:
        return mean_s
    return min(1.7 * mean_s, max(0.3 * mean_s, rng.gauss(mean_s, deviation_s)))


def seconds(name: str, time: str | int | None) -> float | None:
    """Parse a time in seconds; raises ConfigError that names the field."""
    if time is None:
        return None
    if isinstance(time, int):
        return time / 1e9
    try:
        parsed = duration.parse(time)
    except duration.DurationError as error:
        raise ConfigError(f"{name.replace('_', '-')}: {error}") from error
    if parsed < 0:
        raise ConfigError(f"{name.replace('_', '-')}: must not be negative, got {time!r}")
    return parsed


Refusal = Literal[
    "rate_limit", "invalid_api_key", "context_length", "server_error", "invalid_request", "model_not_found"
]
"""An error response."""
MishapKind = Literal[
    "stall", "reset", "slow_loris", "partial_stream", "malformed_json", "wrong_usage", "latency"
]
"""A response that fails on its way; `latency` only delays it."""
REFUSALS: dict[str, tuple[int, str]] = {
    "rate_limit": (429, "Rate limit reached"),
    "invalid_api_key": (401, "Incorrect API key provided"),
    "context_length": (400, "This model's maximum context length is exceeded"),
    "server_error": (503, "The server is overloaded or not ready yet"),
    "invalid_request": (400, "Invalid request"),
    "model_not_found": (404, "The model does not exist"),
}

FAILURE_TYPES: tuple[str, ...] = (*REFUSALS, *get_args(MishapKind))

Seconds = Annotated[float, Meta(ge=0, le=3600)]


class FailureSettings(LatencySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Latencies and failures until changed; the fault schedule is added on top."""

    failure_injection_rate: Annotated[float, Meta(ge=0, le=100)] = 0.0
    """Percentage of requests that fail."""
    failure_types: tuple[Refusal | MishapKind, ...] = tuple(REFUSALS)  # type: ignore[arg-type]
    """Failure types, all equally likely."""
    latency_s: Seconds = 1.0
    """Delay of a request that fails with `latency`."""
    stall_s: Seconds = 30.0
    """Duration of the pause in a response that fails with `stall`."""
    trickle_s: Seconds = 0.1
    """Time for each 16 bytes of a response that fails with `slow_loris`."""
    slowdown: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    """Factor on the time of steps."""
    ready: bool = True
    """Whether /health reports ready."""
    metrics: Literal["on", "off", "stale"] = "on"
    """Whether /metrics responds, with current values or with those from when this was set."""
    faults: Annotated[list[Any], Meta(max_length=1000)] = msgspec.field(default_factory=list)
    """A fault schedule; its times count from when it is set."""
