"""Latencies on the wire: as llm-d-inference-sim has them, `"250ms"` or nanoseconds."""

import random
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.kubeschema import duration
from headgate.simulator.model.config import ConfigError
from headgate.simulator.model.latencies import MAX_DEVIATION, Calculator, Latencies

Time = Annotated[str, Meta(max_length=40)] | Annotated[int, Meta(ge=0, le=10**15)]


class LatencySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is not said is the profile's; without any of them, so is everything."""

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
    """Until a prompt has come from another engine, whatever its size."""
    kv_cache_transfer_latency_std_dev: Time | None = None
    kv_cache_transfer_time_per_token: Time | None = None
    kv_cache_transfer_time_std_dev: Time | None = None

    def latencies(self) -> Latencies:
        """Those of the engine. Raises ConfigError that names a time that is none."""
        return Latencies(
            latency_calculator=self.latency_calculator,
            time_factor_under_load=self.time_factor_under_load,
            **{name: seconds(name, getattr(self, name)) for name in _ENGINE_TIMES},
        )

    def transfer_s(self, tokens: int) -> tuple[float, float]:
        """How long prompts of so many tokens take from another engine, and its deviation."""
        is_constant = self.latency_calculator == "constant" or not (
            self.latency_calculator or self.kv_cache_transfer_latency is None
        )
        constant_s = self._seconds("kv_cache_transfer_latency")
        per_token_s = self._seconds("kv_cache_transfer_time_per_token")
        if is_constant:
            return constant_s, self._seconds("kv_cache_transfer_latency_std_dev")
        return tokens * per_token_s, self._seconds("kv_cache_transfer_time_std_dev")

    def check(self) -> None:
        """Raises ConfigError with a deviation that is too large, or a time that is none."""
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
    """A time that lies around another, 0.3 to 1.7 times as long."""
    if not deviation_s:
        return mean_s
    return min(1.7 * mean_s, max(0.3 * mean_s, rng.gauss(mean_s, deviation_s)))


def seconds(name: str, time: str | int | None) -> float | None:
    """Raises ConfigError that names the field."""
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
