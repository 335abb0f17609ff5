"""`flowControl` of an EndpointPickerConfig, with the plugins that it references.

Defaults are those of the endpoint picker, except for the saturation detector: its default would stop a pool
whose engines are read less than five times a second, so predicted work is the default here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from headgate.flow.capacity import CapacitySettings, CeilingSettings
from headgate.flow.configuration.queueing import Queueing
from headgate.flow.queue import FAIRNESS, ORDERINGS, BandSettings, FlowSettings
from headgate.flow.queue.settings import FairnessName, OrderingName
from headgate.kubeschema import duration, quantity
from headgate.scheduling.configuration import Problems, document, elsewhere
from headgate.scheduling.configuration.document import Band, Document, FlowControl, Only
from headgate.scheduling.configuration.fields import read_struct
from headgate.scheduling.configuration.problems import meant
from headgate.scheduling.plugins.saturation import (
    ConcurrencyDetectorParameters,
    UtilizationDetectorParameters,
)

GATE = "flowControl"
TTL_S = 60.0
USUAL_FAIRNESS, USUAL_ORDER = "global-strict-fairness-policy", "fcfs-ordering-policy"
BAND_REQUESTS, BAND_BYTES = 5000, 1_000_000_000
_Policy = TypeVar("_Policy", FairnessName, OrderingName)
_Parameters = TypeVar("_Parameters", bound=msgspec.Struct)
_Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


class _Static(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    threshold: _Share = 1.0


class _Holdback(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    min_ceiling: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    max_ceiling: _Share = 1.0
    domain: Literal["rank", "value"] = "rank"


class _Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a plugin that takes none."""


def of_picker(said: Document, problems: Problems) -> Queueing | None:
    """Queue settings of an endpoint picker file; None if it leaves them to the gateway."""
    gate, flow = document.gate(said, GATE), said.flow_control
    if gate is False:
        return Queueing(flow=FlowSettings(is_on=False))
    if gate is None:
        if flow is not None:
            problems.warning("flowControl", "without effect", f"open its gate: featureGates: [{GATE}]")
        elif said.saturation_detector is not None:
            fix = f"open the gate: featureGates: [{GATE}]"
            problems.warning("saturationDetector", "without effect: the gateway's own settings apply", fix)
        return None
    return _Translation(said, problems).queueing(flow or FlowControl())


class _Translation:
    """The translation of one file."""

    def __init__(self, said: Document, problems: Problems) -> None:
        self._said = said
        self._problems = problems
        self._plugins: dict[str, tuple[str, Mapping[str, Any], str]] = {}
        for at, spec in enumerate(said.plugins):
            if spec is not None:
                self._plugins[spec.name or spec.type] = (spec.type, spec.parameters, f"plugins[{at}]")

    def queueing(self, flow: FlowControl) -> Queueing:
        ttl_s = self._seconds("flowControl.defaultRequestTTL", flow.default_request_ttl, TTL_S)
        default = self._band("flowControl.defaultPriorityBand", flow.default_priority_band or Band())
        lower = flow.default_negative_priority_band
        settings = FlowSettings(
            ttl_s=ttl_s,
            no_endpoint_ttl_s=self._seconds(
                "flowControl.noEndpointRequestTTL", flow.no_endpoint_request_ttl, ttl_s
            ),
            max_requests=self._amount("flowControl.maxRequests", flow.max_requests, 0),
            max_bytes=self._amount("flowControl.maxBytes", flow.max_bytes, 0),
            band=default,
            negative_band=self._band("flowControl.defaultNegativePriorityBand", lower) if lower else None,
            bands=self._bands(flow),
            evicts_running=flow.enable_eviction,
        )
        return Queueing(flow=settings, capacity=self._capacity(flow))

    # -- queue

    def _bands(self, flow: FlowControl) -> dict[int, BandSettings]:
        bands: dict[int, BandSettings] = {}
        for at, band in enumerate(flow.priority_bands):
            if band is None:
                continue
            path = f"flowControl.priorityBands[{at}]"
            if band.priority in bands:
                told = f"a second band has the priority {band.priority}"
                self._problems.error(f"{path}.priority", told, "leave one of them")
            bands[band.priority] = self._band(path, band)
        return bands

    def _band(self, path: str, band: Band) -> BandSettings:
        return BandSettings(
            max_requests=self._amount(f"{path}.maxRequests", band.max_requests, 0) or BAND_REQUESTS,
            max_bytes=self._amount(f"{path}.maxBytes", band.max_bytes, 0) or BAND_BYTES,
            fairness=self._policy(
                f"{path}.fairnessPolicyRef",
                band.fairness_policy_ref or USUAL_FAIRNESS,
                FAIRNESS,
            ),
            ordering=self._policy(
                f"{path}.orderingPolicyRef", band.ordering_policy_ref or USUAL_ORDER, ORDERINGS
            ),
        )

    def _policy(self, path: str, name: str, known: tuple[_Policy, ...]) -> _Policy:
        kind, parameters, where = self._plugins.get(name, (name, {}, ""))
        for policy in known:
            if policy == kind:
                if parameters:
                    self._problems.warning(f"{where}.parameters", f"parameters of {kind} have no effect")
                return policy
        self._report_misuse(path, name, f"{kind} is not a policy of this kind", meant(kind, known))
        return known[0]

    # -- capacity

    def _capacity(self, flow: FlowControl) -> CapacitySettings:
        ceilings = self._ceilings(flow.usage_limit_policy_plugin_ref)
        reference, older = flow.saturation_detector, self._said.saturation_detector
        path = "flowControl.saturationDetector"
        if reference is None and older is not None and not older.plugin_ref:
            parameters = older.thresholds
            read_struct(UtilizationDetectorParameters, parameters, "saturationDetector", self._problems)
            return self._by_utilization(parameters, "saturationDetector", ceilings)
        name = (reference or older or Only(plugin_ref="")).plugin_ref
        if not name:
            self._problems.note(path, "not set: predicted work decides whether a pool has capacity")
            return CapacitySettings(ceilings=ceilings)
        kind, parameters, where = self._plugins.get(name, (name, {}, path))
        if kind == "utilization-detector":
            return self._by_utilization(parameters, f"{where}.parameters", ceilings)
        if kind == "concurrency-detector":
            concurrency = self._parameters(ConcurrencyDetectorParameters, parameters, where)
            return CapacitySettings(
                detector="concurrency-detector",
                ceilings=ceilings,
                mode=concurrency.mode,
                max_requests=max(round(concurrency.max_concurrency), 1),
                max_tokens=max(round(concurrency.max_token_concurrency), 1),
            )
        detectors = ("utilization-detector", "concurrency-detector")
        told = f"{kind} is not a saturation detector"
        self._report_misuse(f"{path}.pluginRef", name, told, meant(kind, detectors))
        return CapacitySettings()

    def _by_utilization(
        self, parameters: Mapping[str, Any], where: str, ceilings: CeilingSettings
    ) -> CapacitySettings:
        """Settings of a utilization-detector, whose parameters are already validated."""
        said = (
            read_struct(UtilizationDetectorParameters, parameters, where, Problems())
            or UtilizationDetectorParameters()
        )
        staleness = f"{where}.metricsStalenessThreshold"
        return CapacitySettings(
            detector="utilization-detector",
            ceilings=ceilings,
            queue_depth=max(round(said.queue_depth_threshold), 1),
            kv_usage=said.kv_cache_util_threshold,
            stale_s=self._seconds(staleness, said.metrics_staleness_threshold, 0.2),
        )

    def _ceilings(self, name: str) -> CeilingSettings:
        if not name:
            return CeilingSettings()
        path = "flowControl.usageLimitPolicyPluginRef"
        kind, parameters, where = self._plugins.get(name, (name, {}, path))
        if kind == "static-usage-limit-policy":
            return CeilingSettings(
                ceiling=self._parameters(_Static, parameters, where, validates=True).threshold
            )
        if kind == "soft-reflective-ceiling-policy":
            self._parameters(_Nothing, parameters, where, validates=True)
            return CeilingSettings(policy="soft-reflective-ceiling-policy")
        if kind == "priority-holdback-policy":
            read = read_struct(_Holdback, parameters, f"{where}.parameters", self._problems)
            if read is None:
                return CeilingSettings()
            if read.min_ceiling > read.max_ceiling:
                told = f"{read.min_ceiling:g} is more than maxCeiling, {read.max_ceiling:g}"
                self._problems.error(f"{where}.parameters.minCeiling", told, "make it smaller")
                return CeilingSettings()
            return CeilingSettings(
                policy="priority-holdback-policy",
                least=read.min_ceiling,
                most=read.max_ceiling,
                domain=read.domain,
            )
        known = ("static-usage-limit-policy", "priority-holdback-policy", "soft-reflective-ceiling-policy")
        self._report_misuse(path, name, f"{kind} is not a usage limit policy", meant(kind, known))
        return CeilingSettings()

    def _parameters(
        self, kind: type[_Parameters], given: Mapping[str, Any], where: str, *, validates: bool = False
    ) -> _Parameters:
        """A detector's parameters were validated already, as it is also a filter; others are validated if
        `validates`."""
        problems = self._problems if validates else Problems()
        return read_struct(kind, given, f"{where}.parameters", problems) or kind()

    def _report_misuse(self, path: str, name: str, told: str, fix: str) -> None:
        """Report a plugin of the wrong kind; a missing one was reported already."""
        if name in self._plugins or name in elsewhere.TYPES:
            self._problems.error(path, told, fix)

    # -- values

    def _amount(self, path: str, value: str | int | None, default: int) -> int:
        if value is None:
            return default
        try:
            amount = quantity.parse(value).rounded_up()
        except ValueError:
            self._problems.error(path, f"{value!r} is not a quantity", "write it as 500, 1k or 10Gi")
            return default
        if amount < 0:
            self._problems.error(path, f"{value!r} is negative", "0 is no limit")
            return default
        return amount

    def _seconds(self, path: str, text: str, default: float) -> float:
        if not text:
            return default
        try:
            seconds = duration.parse(text)
        except ValueError:
            self._problems.error(
                path, f"{text!r} is not a duration", f"write {duration.meant(text) or '60s or 1m30s'}"
            )
            return default
        if seconds < 0:
            self._problems.error(path, f"{text!r} is negative", "0 is no limit")
            return default
        return seconds
