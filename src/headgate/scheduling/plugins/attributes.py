"""Plugins configured with the name of an endpoint's figure."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import msgspec

from headgate.fleet import EndpointState
from headgate.scheduling.plugins.parameters import unused
from headgate.scheduling.plugins.plugin import Cycle, Filter, Loads, Scorer

Figure = Callable[[EndpointState], float | None]
"""None if the endpoint does not report it."""


def _waiting(load: EndpointState) -> float | None:
    reading = load.reading
    if reading is None or reading.waiting is None:
        return None
    return max(0, reading.waiting + load.requests - load.requests_at_reading)


def _running(load: EndpointState) -> float | None:
    reading = load.reading
    if reading is None or reading.running is None:
        return None
    return max(0, reading.running + load.requests - load.requests_at_reading)


def _kv_usage(load: EndpointState) -> float | None:
    return load.reading.kv_usage if load.reading is not None else None


def _ttft_s(load: EndpointState) -> float | None:
    return load.reading.ttft_s if load.reading is not None else None


def _tpot_s(load: EndpointState) -> float | None:
    return load.reading.tpot_s if load.reading is not None else None


FIGURES: dict[str, Figure] = {
    "waiting-queue": _waiting,
    "num_requests_waiting": _waiting,
    "running-requests": _running,
    "num_requests_running": _running,
    "kv-cache-utilization": _kv_usage,
    "kv_cache_usage_perc": _kv_usage,
    "active-requests": lambda load: load.requests,
    "prefill-tokens": lambda load: load.prefill_tokens,
    "ttft-seconds": _ttft_s,
    "tpot-seconds": _tpot_s,
}
"""By their names in configurations."""


def _known(name: str, field: str) -> None:
    if name not in FIGURES:
        raise ValueError(f"{field} {name!r} is not known: {', '.join(FIGURES)} are")


class FixedRange(msgspec.Struct, frozen=True, kw_only=True):
    min: float
    max: float

    def __post_init__(self) -> None:
        if self.min >= self.max:
            raise ValueError(f"min {self.min:g} is not less than max {self.max:g}")


class AdaptiveRange(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Normalization(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    adaptive_range: AdaptiveRange | None = None
    fixed_range: FixedRange | None = None

    def __post_init__(self) -> None:
        if self.adaptive_range is not None and self.fixed_range is not None:
            raise ValueError("adaptiveRange and fixedRange exclude each other")


class ScorerAlgorithm(msgspec.Struct, frozen=True, kw_only=True):
    type: Literal["linear_lower_is_better", "linear_higher_is_better"]
    normalization: Normalization = Normalization()


class AttributeScorerParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    attribute_key: str
    algorithm: ScorerAlgorithm

    def __post_init__(self) -> None:
        _known(self.attribute_key, "attributeKey")


class EndpointAttributeScorer(Scorer):
    """(value - min) / (max - min) of one figure, or 1 minus that if lower is better; over the endpoints, or
    within a fixed range. Equal ones score 1; an endpoint without the figure scores 0."""

    kind = "endpoint-attribute-scorer"
    Parameters = AttributeScorerParameters
    alpha = True

    def __init__(self, parameters: AttributeScorerParameters) -> None:
        super().__init__()
        self._figure = FIGURES[parameters.attribute_key]
        self._lower_is_better = parameters.algorithm.type == "linear_lower_is_better"
        self._range = parameters.algorithm.normalization.fixed_range

    def scores(self, cycle: Cycle, loads: Loads) -> Sequence[float]:
        values = [self._figure(load) for load in loads]
        known = [value for value in values if value is not None]
        if not known:
            return [0.0] * len(loads)
        least, most = (
            (self._range.min, self._range.max) if self._range is not None else (min(known), max(known))
        )
        return [0.0 if value is None else self._score(value, least, most) for value in values]

    def _score(self, value: float, least: float, most: float) -> float:
        if least == most:
            return 1.0
        share = (min(max(value, least), most) - least) / (most - least)
        return 1.0 - share if self._lower_is_better else share


OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "Equal": operator.eq,
    "NotEqual": operator.ne,
}


class Threshold(msgspec.Struct, frozen=True, kw_only=True):
    operator: Literal["LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "Equal", "NotEqual"]
    value: float


class Range(msgspec.Struct, frozen=True, kw_only=True):
    min: float
    max: float

    def __post_init__(self) -> None:
        if self.min > self.max:
            raise ValueError(f"min {self.min:g} is more than max {self.max:g}")


class TopK(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    k: Annotated[int, msgspec.Meta(ge=1)]
    higher_is_better: bool = True


class Percentile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    percentile: Annotated[float, msgspec.Meta(ge=0, le=100)]
    higher_is_better: bool = True


class FilterAlgorithm(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: Literal["threshold", "range", "topK", "percentile"]
    threshold: Threshold | None = None
    range: Range | None = None
    top_k: TopK | None = None
    percentile: Percentile | None = None

    def __post_init__(self) -> None:
        said = {
            "threshold": self.threshold,
            "range": self.range,
            "topK": self.top_k,
            "percentile": self.percentile,
        }
        if said[self.type] is None:
            raise ValueError(f"type {self.type} needs algorithm.{self.type}")
        others = [name for name, value in said.items() if value is not None and name != self.type]
        if others:
            raise ValueError(f"{others[0]} is not for type {self.type}")


class AttributeFilterParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    attribute: str
    producer: Annotated[str, unused("figures come from the gateway's own readings")] = ""
    on_missing: Literal["Pass", "Fail"] = "Pass"
    fallback_on_empty: bool = False
    algorithm: FilterAlgorithm

    def __post_init__(self) -> None:
        _known(self.attribute, "attribute")


class EndpointAttributeFilter(Filter):
    """Keeps endpoints by one figure: against a threshold, within a range, the best k, or by percentile."""

    kind = "endpoint-attribute-filter"
    Parameters = AttributeFilterParameters
    alpha = True
    about_load = True

    def __init__(self, parameters: AttributeFilterParameters) -> None:
        super().__init__()
        self._said = parameters
        self._figure = FIGURES[parameters.attribute]

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        values = [(load, self._figure(load)) for load in loads]
        known = [(load, value) for load, value in values if value is not None]
        chosen = set(self._chosen(known))
        if self._said.on_missing == "Pass":
            chosen.update(load for load, value in values if value is None)
        kept = [load for load in loads if load in chosen]
        return loads if not kept and self._said.fallback_on_empty else kept

    def _chosen(self, known: list[tuple[EndpointState, float]]) -> list[EndpointState]:
        said = self._said.algorithm
        if said.threshold is not None:
            holds = OPERATORS[said.threshold.operator]
            return [load for load, value in known if holds(value, said.threshold.value)]
        if said.range is not None:
            return [load for load, value in known if said.range.min <= value <= said.range.max]
        if said.top_k is not None:
            known = sorted(known, key=lambda each: each[1], reverse=said.top_k.higher_is_better)
            return [load for load, _ in known[: said.top_k.k]]
        assert said.percentile is not None
        if not known:
            return []
        ranked = sorted(value for _, value in known)
        cut = ranked[max(math.ceil(said.percentile.percentile / 100 * len(ranked)), 1) - 1]
        holds = operator.ge if said.percentile.higher_is_better else operator.le
        return [load for load, value in known if holds(value, cut)]


class Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    metric: Literal["active-requests", "running-requests", "waiting-queue", "kv-cache-utilization"]
    max_value: float


class UtilizationParameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    conditions: Annotated[tuple[Condition, ...], msgspec.Meta(min_length=1)]
    fallback_on_empty: bool = False
    in_flight_load_producer_name: str = ""


class UtilizationFilter(Filter):
    """Keeps endpoints whose figures are all within the conditions; a missing figure counts as 0. With
    `fallbackOnEmpty`, keeps all if none is."""

    kind = "utilization-filter"
    Parameters = UtilizationParameters
    alpha = True
    about_load = True

    def __init__(self, parameters: UtilizationParameters) -> None:
        super().__init__()
        self._limits = [(FIGURES[each.metric], each.max_value) for each in parameters.conditions]
        self._falls_back = parameters.fallback_on_empty

    def keep(self, cycle: Cycle, loads: Loads) -> Loads:
        limits = self._limits
        kept = [load for load in loads if all((figure(load) or 0) <= most for figure, most in limits)]
        return loads if not kept and self._falls_back else kept
