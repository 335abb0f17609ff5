"""Counts requests under the names of the reference implementation, for dashboards and alerts that exist.

The names are those of llm-d (`llm_d_epp_*`), and for counters also those of the Gateway API Inference
Extension (`inference_objective_*`). The picker's own metrics say more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headgate.requests.account import SERVED
from headgate.telemetry import Counter, Histogram, LabelValues, Registry

if TYPE_CHECKING:
    from headgate.picker.request import ProxiedRequest
    from headgate.requests.life import Life
    from headgate.telemetry.metrics import CounterChild, HistogramChild

PREFIX: Final = "llm_d_epp"
MAX_VALUES: Final = 1000
"""Values of one label that clients choose; further ones are `other`."""
LABELS: Final = ("model_name", "target_model_name", "fairness_id", "priority")
_MAX_BOUND: Final = 2000
_DURATION_S: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0,
    2700.0, 3600.0,
)  # fmt: skip
_TOKENS: Final = (
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32778.0,
    65536.0, 131072.0, 262144.0, 524288.0, 1048576.0,
)  # fmt: skip
_OUTPUT_TOKENS: Final = (
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0,
)  # fmt: skip


class Ended(Protocol):
    """A request, which is over where it is `settled`."""

    @property
    def life(self) -> Life: ...
    @property
    def request(self) -> ProxiedRequest: ...


class _Series:
    """The metrics of all requests with the same labels."""

    __slots__ = ("duration", "input_tokens", "output_tokens", "total")

    def __init__(
        self,
        total: CounterChild,
        duration: HistogramChild,
        input_tokens: HistogramChild,
        output_tokens: HistogramChild,
    ) -> None:
        self.total = total
        self.duration = duration
        self.input_tokens = input_tokens
        self.output_tokens = output_tokens


class ReferenceMetrics:
    """Requests are counted when they are picked for, as by the reference implementation: those that are
    rejected are errors only."""

    def __init__(self, registry: Registry) -> None:
        self._models, self._targets = LabelValues(MAX_VALUES), LabelValues(MAX_VALUES)
        self._flows, self._priorities = LabelValues(MAX_VALUES), LabelValues(64)
        self._series: dict[tuple[str, str, str, int], _Series] = {}
        self._total = Counter(f"{PREFIX}_request", "Requests for which an endpoint was picked.", LABELS)
        self._errors = Counter(
            f"{PREFIX}_request_error", "Requests that were not served.", (*LABELS, "error_code")
        )
        self._duration = Histogram(
            f"{PREFIX}_request_duration_seconds",
            "From a request's arrival at the picker to its end.",
            LABELS,
            _DURATION_S,
        )
        self._input_tokens = Histogram(
            f"{PREFIX}_request_input_tokens", "Tokens of prompts.", LABELS, _TOKENS
        )
        self._output_tokens = Histogram(
            f"{PREFIX}_request_output_tokens", "Tokens of responses.", LABELS, _OUTPUT_TOKENS
        )
        registry.add(self._total, self._errors, self._duration, self._input_tokens, self._output_tokens)
        old = "inference_objective"
        registry.add(
            Counter(f"{old}_request", f"The same as {PREFIX}_request_total.", LABELS, self._total.samples),
            Counter(
                f"{old}_request_error",
                f"The same as {PREFIX}_request_error_total.",
                (*LABELS, "error_code"),
                self._errors.samples,
            ),
        )

    def picked(self, ended: Ended) -> None:
        """Called once for every request for which an endpoint is picked."""
        self._series_of(_key_of(ended)).total.value += 1

    def settled(self, ended: Ended, now: float) -> None:
        """Called exactly once for every request with a decision."""
        account, key = ended.life.account, _key_of(ended)
        series = self._series_of(key)
        series.duration.observe(now - ended.request.arrived_at)
        if account.usage is not None:
            series.input_tokens.observe(account.usage.prompt)
            series.output_tokens.observe(account.usage.completion)
        if account.outcome != SERVED or account.status >= 400:
            code = account.outcome if account.outcome != SERVED else f"status_{account.status}"
            self._errors.labels(*self._labels(key), code).value += 1

    def _labels(self, key: tuple[str, str, str, int]) -> tuple[str, str, str, str]:
        model, target, flow, priority = key
        return (
            self._models.value(model),
            self._targets.value(target),
            self._flows.value(flow),
            self._priorities.value(str(priority)),
        )

    def _series_of(self, key: tuple[str, str, str, int]) -> _Series:
        return self._series.get(key) or self._bind(key)

    def _bind(self, key: tuple[str, str, str, int]) -> _Series:
        if len(self._series) >= _MAX_BOUND:
            self._series.clear()
        labels = self._labels(key)
        series = self._series[key] = _Series(
            self._total.labels(*labels),
            self._duration.labels(*labels),
            self._input_tokens.labels(*labels),
            self._output_tokens.labels(*labels),
        )
        return series


def _key_of(ended: Ended) -> tuple[str, str, str, int]:
    decision = ended.life.decision
    target = decision.upstream_model if decision.pool is not None else ""
    return decision.model, target, ended.request.fairness_id, decision.scheduled.priority
