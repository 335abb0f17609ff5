"""The schema of an EndpointPickerConfig, and checks of the parts that do not concern policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import msgspec

from headgate.scheduling.configuration import elsewhere
from headgate.scheduling.configuration.problems import Problems, meant

OLDER_VERSION = "inference.networking.x-k8s.io/v1alpha1"
"""From before the endpoint picker was llm-d's."""
VERSIONS = ("llm-d.ai/v1alpha1", "llm-d.ai/v1", OLDER_VERSION)
_GATES = {
    "flowControl": "",
    "dataLayer": "",
    "prepareDataPlugins": "",
    "enableLegacyMetrics": "the gateway has metrics of its own",
}
"""Why a gate has no effect; "" if what it enables is always on."""
_ALWAYS = ("dataLayer", "prepareDataPlugins")
"""Gates that cannot be closed."""

PASSTHROUGH = "passthrough-parser"

Text = Annotated[str, msgspec.Meta(min_length=1)]


class PluginSpec(msgspec.Struct, frozen=True, kw_only=True):
    type: Text
    name: str = ""
    parameters: dict[str, Any] = {}


class Reference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    plugin_ref: Text
    weight: float | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    name: Text
    plugins: tuple[Reference | None, ...] = ()


class Only(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A reference and nothing else."""

    plugin_ref: Text


class OlderDetector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The deprecated saturation detector: by name or, earlier still, by its thresholds."""

    plugin_ref: str = ""
    queue_depth_threshold: float | None = None
    kv_cache_util_threshold: float | None = None
    metrics_staleness_threshold: str | None = None

    @property
    def thresholds(self) -> Mapping[str, Any]:
        """The thresholds as parameters of a utilization-detector."""
        said = msgspec.to_builtins(self)
        return {name: value for name, value in said.items() if name != "pluginRef" and value is not None}


class _Source(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    plugin_ref: Text
    extractors: tuple[Only | None, ...] = ()


class _DataLayer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    inject_defaults: bool = True
    sources: tuple[_Source | None, ...] = ()
    discovery: Only | None = None
    peer_discovery: Only | None = None
    cross_replica_syncer_plugin_ref: str = ""
    cross_replica_sync_interval: str = ""


class _Handler(msgspec.Struct, frozen=True, kw_only=True):
    parsers: tuple[Only | None, ...] = ()


class Band(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    priority: int = 0
    max_bytes: str | int | None = None
    max_requests: str | int | None = None
    fairness_policy_ref: str = ""
    ordering_policy_ref: str = ""


class FlowControl(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    max_bytes: str | int | None = None
    max_requests: str | int | None = None
    default_request_ttl: str = msgspec.field(default="", name="defaultRequestTTL")
    no_endpoint_request_ttl: str = msgspec.field(default="", name="noEndpointRequestTTL")
    default_priority_band: Band | None = None
    default_negative_priority_band: Band | None = None
    priority_bands: tuple[Band | None, ...] = ()
    usage_limit_policy_plugin_ref: str = ""
    saturation_detector: Only | None = None
    enable_eviction: bool = False


# An unreadable list entry is None, so that the others keep their index.


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole file."""

    api_version: str = ""
    kind: str = ""
    metadata: dict[str, Any] = {}
    feature_gates: tuple[str, ...] = ()
    plugins: tuple[PluginSpec | None, ...] = ()
    scheduling_profiles: tuple[Profile | None, ...] = ()
    data_layer: _DataLayer | None = None
    data: _DataLayer | None = None
    """Deprecated name of `dataLayer`."""
    flow_control: FlowControl | None = None
    request_handler: _Handler | None = None
    saturation_detector: OlderDetector | None = None
    parser: Only | None = None


def judge_header(said: Document, problems: Problems) -> None:
    """Check version, kind and gates."""
    if said.api_version not in VERSIONS:
        told = f"{said.api_version!r} is not known" if said.api_version else "it is required"
        problems.error("apiVersion", told, f"use {VERSIONS[0]}")
    elif said.api_version == OLDER_VERSION:
        problems.warning("apiVersion", f"{OLDER_VERSION} is deprecated", f"use {VERSIONS[0]}")
    if said.kind != "EndpointPickerConfig":
        problems.error("kind", f"{said.kind!r} is not known", "use EndpointPickerConfig")
    for at, gate in enumerate(said.feature_gates):
        name, _, state = gate.partition("=")
        path = f"featureGates[{at}]"
        if name not in _GATES:
            problems.error(path, f"there is no gate {name}", meant(name, _GATES))
        elif state not in ("", "true", "false"):
            problems.error(path, f"{gate}: a gate is true or false", f"say {name}=true")
        elif state != "false" and _GATES[name]:
            problems.warning(path, f"{name} has no effect: {_GATES[name]}")
        elif state == "false" and name in _ALWAYS:
            problems.warning(path, f"{gate} has no effect: the gateway does that in any case")


def judge_references(said: Document, types: Mapping[str, str], problems: Problems) -> None:
    """Check everything besides plugins and profiles: references must exist, and settings without effect are
    reported."""
    for old, new in (("saturationDetector", "flowControl.saturationDetector"), ("data", "dataLayer")):
        if getattr(said, {"saturationDetector": "saturation_detector"}.get(old, old)) is not None:
            problems.warning(old, f"{old} is deprecated", f"use {new}")
    if said.parser is not None:
        problems.warning("parser", "parser is deprecated", "use requestHandler.parsers")
    for path, name in _references(said):
        if name and name not in types and elsewhere.DEPRECATED.get(name, name) not in elsewhere.TYPES:
            problems.error(path, f"no plugin is called {name}", meant(name, types))
    layer = said.data_layer or said.data
    if layer is not None:
        where = "dataLayer" if said.data_layer is not None else "data"
        for field, value in (("discovery", layer.discovery), ("peerDiscovery", layer.peer_discovery)):
            if value is not None:
                why = "endpoints come from the objects of the API server"
                problems.warning(f"{where}.{field}", f"without effect: {why}")
        for field, given in (
            ("crossReplicaSyncerPluginRef", layer.cross_replica_syncer_plugin_ref),
            ("crossReplicaSyncInterval", layer.cross_replica_sync_interval),
        ):
            if given:
                problems.warning(f"{where}.{field}", "without effect: gateways share no state")
        if not layer.inject_defaults:
            told = "without effect: the gateway reads engines by itself in any case"
            problems.warning(f"{where}.injectDefaults", told)


def _references(said: Document) -> Iterator[tuple[str, str]]:
    layer, where = (said.data_layer, "dataLayer") if said.data_layer is not None else (said.data, "data")
    if layer is not None:
        for at, source in enumerate(layer.sources):
            if source is None:
                continue
            yield f"{where}.sources[{at}].pluginRef", source.plugin_ref
            for place, extractor in enumerate(source.extractors):
                if extractor is not None:
                    path = f"{where}.sources[{at}].extractors[{place}].pluginRef"
                    yield path, extractor.plugin_ref
        yield f"{where}.discovery.pluginRef", _name(layer.discovery)
        yield f"{where}.peerDiscovery.pluginRef", _name(layer.peer_discovery)
        yield f"{where}.crossReplicaSyncerPluginRef", layer.cross_replica_syncer_plugin_ref
    if said.request_handler is not None:
        for at, parser in enumerate(said.request_handler.parsers):
            yield f"requestHandler.parsers[{at}].pluginRef", _name(parser)
    yield "parser.pluginRef", _name(said.parser)
    yield "saturationDetector.pluginRef", _detector(said.saturation_detector)
    flow = said.flow_control
    if flow is not None:
        yield "flowControl.saturationDetector.pluginRef", _detector(flow.saturation_detector)
        yield "flowControl.usageLimitPolicyPluginRef", flow.usage_limit_policy_plugin_ref
        for path, band in bands(flow):
            yield f"{path}.fairnessPolicyRef", band.fairness_policy_ref
            yield f"{path}.orderingPolicyRef", band.ordering_policy_ref


def passes_bodies(said: Document) -> bool:
    """Whether the only parsers are those that do not read bodies."""
    types = {each.name or each.type: each.type for each in said.plugins if each is not None}
    parsers = said.request_handler.parsers if said.request_handler is not None else (said.parser,)
    found = [types.get(name, name) for name in map(_name, parsers) if name]
    return bool(found) and all(each == PASSTHROUGH for each in found)


def _name(reference: Only | OlderDetector | None) -> str:
    return reference.plugin_ref if reference is not None else ""


def _detector(reference: Only | OlderDetector | None) -> str:
    """The referenced plugin; "" for the default detectors, which need no definition."""
    name = _name(reference)
    return "" if name in ("utilization-detector", "concurrency-detector") else name


def bands(flow: FlowControl) -> Iterator[tuple[str, Band]]:
    """The bands of a document, each with its path."""
    for at, band in enumerate(flow.priority_bands):
        if band is not None:
            yield f"flowControl.priorityBands[{at}]", band
    for name, default in (
        ("defaultPriorityBand", flow.default_priority_band),
        ("defaultNegativePriorityBand", flow.default_negative_priority_band),
    ):
        if default is not None:
            yield f"flowControl.{name}", default


def gate(said: Document, name: str) -> bool | None:
    """Whether a feature gate is open; None if it is not mentioned."""
    for each in said.feature_gates:
        found, _, state = each.partition("=")
        if found == name:
            return state != "false"
    return None
