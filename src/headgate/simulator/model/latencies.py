"""Latencies as in llm-d-inference-sim, for a lone request and under load, instead of step costs."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from headgate.simulator.model.config import ConfigError, EngineConfig

Calculator = Literal["", "constant", "per-token"]
MAX_DEVIATION = 0.3
"""Maximum standard deviation, as a fraction of the mean."""
_SLACK = 1e-9
"""Tolerance for rounding."""


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """In seconds; None keeps the costs. `apply` checks them against an engine."""

    latency_calculator: Calculator = ""
    """Whether the first token takes a constant time, or an overhead and a time per token; by default constant
    if `time_to_first_token` is set.
    """
    time_to_first_token: float | None = None
    time_to_first_token_std_dev: float | None = None
    prefill_overhead: float | None = None
    prefill_time_per_token: float | None = None
    prefill_time_std_dev: float | None = None
    inter_token_latency: float | None = None
    """Between two tokens of a lone request."""
    inter_token_latency_std_dev: float | None = None
    time_factor_under_load: float | None = None
    """Factor on `inter_token_latency` with as many requests as can run."""

    @property
    def is_constant(self) -> bool:
        """Whether the first token takes the same time for any prompt."""
        if self.latency_calculator:
            return self.latency_calculator == "constant"
        return bool(self.time_to_first_token or self.time_to_first_token_std_dev)

    def apply(self, config: EngineConfig) -> EngineConfig:
        """The engine with costs that produce these latencies. Raises ConfigError with all errors."""
        paced = self._with_pace(config)
        problems = [*self._out_of_range(), *self._too_short(paced)]
        if problems:
            raise ConfigError("; ".join(problems))
        return self._with_start(paced)

    def _with_pace(self, config: EngineConfig) -> EngineConfig:
        """Set the time between tokens."""
        if self.inter_token_latency is None and self.time_factor_under_load is None:
            return config
        costs = config.costs
        lone_s = self.inter_token_latency
        if lone_s is None:
            lone_s = costs.base_s + costs.per_decode_sequence_s
        more_s = lone_s * ((self.time_factor_under_load or 1.0) - 1.0) / max(1, config.max_num_seqs - 1)
        paced = msgspec.structs.replace(
            costs, base_s=max(0.0, lone_s - more_s), per_decode_sequence_s=more_s, per_kv_token_s=0.0
        )
        jitter = config.step_jitter
        if self.inter_token_latency_std_dev is not None:
            jitter = _share(self.inter_token_latency_std_dev, lone_s)
        return msgspec.structs.replace(config, costs=paced, step_jitter=jitter)

    def _with_start(self, config: EngineConfig) -> EngineConfig:
        """Set the time to the first token."""
        costs, start_s = config.costs, self._start_s
        deviation_s = self.time_to_first_token_std_dev if self.is_constant else self.prefill_time_std_dev
        if start_s is not None:
            costs = msgspec.structs.replace(
                costs, per_start_s=start_s - costs.base_s, prefill_base_s=0.0, least_prefill_s=0.0
            )
        if self.is_constant:
            costs = msgspec.structs.replace(costs, per_prefill_token_s=0.0)
        elif self.prefill_time_per_token is not None:
            costs = msgspec.structs.replace(costs, per_prefill_token_s=self.prefill_time_per_token)
        jitter = config.start_jitter if deviation_s is None else _share(deviation_s, costs.per_start_s)
        return msgspec.structs.replace(config, costs=costs, start_jitter=jitter)

    @property
    def _start_s(self) -> float | None:
        return self.time_to_first_token if self.is_constant else self.prefill_overhead

    def _out_of_range(self) -> Iterator[str]:
        for name in self.__struct_fields__[1:]:
            value = getattr(self, name)
            least = 1.0 if name == "time_factor_under_load" else 0.0
            if value is not None and not least <= value <= 1e6:
                yield f"{_dashed(name)}: must be {least:g} to 1e6, got {value:g}"
        for name, base in (
            ("time_to_first_token_std_dev", self.time_to_first_token),
            ("inter_token_latency_std_dev", self.inter_token_latency),
            ("prefill_time_std_dev", self.prefill_overhead),
        ):
            if (getattr(self, name) or 0.0) > MAX_DEVIATION * (base or 0.0) + _SLACK:
                yield f"{_dashed(name)}: must be at most 30 % of what deviates, which is {base or 0.0:g} s"

    def _too_short(self, paced: EngineConfig) -> Iterator[str]:
        if self._start_s is not None and self._start_s < paced.costs.base_s:
            name = "time-to-first-token" if self.is_constant else "prefill-overhead"
            yield f"{name}: must be at least the time of a step, which is {paced.costs.base_s:g} s"


def _share(deviation_s: float, of_s: float) -> float:
    return min(1.0, deviation_s / of_s) if of_s else 0.0


def _dashed(name: str) -> str:
    return name.replace("_", "-")
