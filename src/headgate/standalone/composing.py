"""Makes objects of engines: a ModelServer for those that serve the same models, ModelRoutes to it, and a Pod
for each engine. Pure.

Models that are served by the same engines share a pool, and so its queue. Engines that are reached in
different ways (HTTP, or HTTPS by different names) are different pools, among which a route splits requests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from headgate import engines
from headgate.api import marks
from headgate.api.expressions import LONGEST_NAME
from headgate.api.marks import Address
from headgate.standalone.asking import Listing
from headgate.standalone.urls import Role, slug

NAMESPACE: Final = "default"
MAX_ADAPTERS: Final = 10
"""Of one ModelRoute, as its definition says."""
MAX_MODELS: Final = 1000
"""Served together; engines that list more are most likely no engines."""

_POOL: Final = "pool.headgate.dev/"
_PREFILLS, _DECODES, _GROUP = "headgate.dev/prefill", "headgate.dev/decode", "headgate.dev/group"
_ENGINE_LABEL: Final = engines.POD_LABELS[0]
_NETWORKING: Final = "networking.volcano.sh/v1alpha1"
_WHOLE: Final = 100
"""The largest weight of a target."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """One server, and what is known of it."""

    name: str
    """Of its Pod."""
    host: str
    port: int
    is_https: bool = False
    server_name: str = ""
    """The name in its certificate, if that is not its host."""
    prefix: str = ""
    weight: float | None = None
    role: Role = ""
    connector: str = ""
    kind: str = ""
    """The name of the engine; empty if it is not known."""
    is_ready: bool = True
    listing: Listing = Listing()


class _Pool(msgspec.Struct, frozen=True):
    name: str
    engines: tuple[Engine, ...]


def objects(found: Iterable[Engine]) -> list[dict[str, Any]]:
    """The objects of all engines that list a model, in a stable order."""
    known = sorted((each for each in found if each.listing.models), key=lambda each: each.name)
    served = _served(known)
    serving: dict[str, list[Engine]] = {}
    for each in known:
        for model in sorted(each.listing.models & served):
            serving.setdefault(model, []).append(each)
    together: dict[tuple[str, ...], list[str]] = {}
    for model in sorted(serving):
        together.setdefault(tuple(each.name for each in serving[model]), []).append(model)
    names = _Names()
    servers: list[dict[str, Any]] = []
    routes: list[dict[str, Any]] = []
    pools_of: dict[str, list[str]] = {}
    for models in together.values():
        pools = _pools(names, models[0], serving[models[0]])
        for pool in pools:
            servers.append(_server(pool))
            for each in pool.engines:
                pools_of.setdefault(each.name, []).append(pool.name)
        for model in models:
            routes += _routes(names, model, _adapters(model, serving), pools)
    has_roles = any(each.role for each in known)
    pods = [_pod(each, pools_of[each.name], has_roles=has_roles) for each in known if each.name in pools_of]
    return [*servers, *routes, *pods]


def _served(known: Sequence[Engine]) -> frozenset[str]:
    """The models that are served. Those of engines that list few come first: one that lists too many must not
    take the place of others."""
    found: dict[str, None] = {}
    for each in sorted(known, key=lambda each: len(each.listing.models)):
        found |= dict.fromkeys(model for model in sorted(each.listing.models) if _is_name(model))
    return frozenset([*found][:MAX_MODELS])


def _pools(names: _Names, model: str, found: Sequence[Engine]) -> list[_Pool]:
    """The engines by how they are reached."""
    alike: dict[tuple[bool, str], list[Engine]] = {}
    for each in found:
        alike.setdefault((each.is_https, each.server_name), []).append(each)
    return [_Pool(names.take("ModelServer", model), tuple(each)) for _, each in sorted(alike.items())]


def _adapters(model: str, serving: Mapping[str, Sequence[Engine]]) -> list[str]:
    """The adapters of a model on any of its engines. One that names no listed model belongs to the first."""
    found: set[str] = set()
    for each in serving[model]:
        listing = each.listing
        orphans = {name for name, parent in listing.adapters.items() if parent not in listing.models}
        found |= {name for name, parent in listing.adapters.items() if parent == model}
        if model == min(listing.models):
            found |= orphans
    return sorted(name for name in found if name not in serving and _is_name(name))


def _is_name(model: str) -> bool:
    """Whether a route may have it."""
    return len(model) <= LONGEST_NAME and model.isprintable()


def _server(pool: _Pool) -> dict[str, Any]:
    kinds = {each.kind for each in pool.engines}
    engine = "SGLang" if kinds == {"SGLang"} else "vLLM"
    first = pool.engines[0]
    selector: dict[str, Any] = {"matchLabels": {f"{_POOL}{pool.name}": "true"}}
    spec: dict[str, Any] = {"inferenceEngine": engine, "workloadSelector": selector}
    if first.is_https:
        spec["workloadPort"] = {"port": first.port, "protocol": "https"}
    if any(each.role for each in pool.engines):
        selector["pdGroup"] = {
            "groupKey": _GROUP,
            "prefillLabels": {_PREFILLS: "true"},
            "decodeLabels": {_DECODES: "true"},
        }
        spec["kvConnector"] = {
            "type": next((each.connector for each in pool.engines if each.connector), "nixl")
        }
    annotations = {marks.TLS_SERVER_NAME: first.server_name} if first.server_name else {}
    return _object(_NETWORKING, "ModelServer", pool.name, spec, annotations)


def _routes(
    names: _Names, model: str, adapters: Sequence[str], pools: Sequence[_Pool]
) -> Iterable[dict[str, Any]]:
    """The route of a model with as many of its adapters as it may have, and routes of the others."""
    targets = _targets(pools)
    rules = [{"name": "all", "targetModels": targets}]
    batches = [adapters[at : at + MAX_ADAPTERS] for at in range(0, len(adapters), MAX_ADAPTERS)] or [()]
    for number, batch in enumerate(batches):
        spec: dict[str, Any] = {"modelName": model} if not number else {}
        if batch:
            spec["loraAdapters"] = list(batch)
        name = names.take("ModelRoute", model if not number else f"{model}-adapters-{number}")
        yield _object(_NETWORKING, "ModelRoute", name, {**spec, "rules": rules})


def _targets(pools: Sequence[_Pool]) -> list[dict[str, Any]]:
    """Each pool gets its share of the requests by the weights of its engines."""
    if len(pools) == 1:
        return [{"modelServerName": pools[0].name, "weight": _WHOLE}]
    sizes = [sum(each.weight or 1.0 for each in pool.engines) for pool in pools]
    largest = max(sizes)
    return [
        {"modelServerName": pool.name, "weight": max(1, round(_WHOLE * size / largest))}
        for pool, size in zip(pools, sizes, strict=True)
    ]


def _pod(engine: Engine, pools: Sequence[str], *, has_roles: bool) -> dict[str, Any]:
    labels = {f"{_POOL}{name}": "true" for name in pools}
    if engine.kind:
        labels[_ENGINE_LABEL] = engine.kind
    if has_roles:  # then engines without one do both
        labels[_GROUP] = "urls"
        if engine.role != "decode":
            labels[_PREFILLS] = "true"
        if engine.role != "prefill":
            labels[_DECODES] = "true"
    annotations = {marks.ADDRESS: str(Address(engine.host, engine.port))}
    if engine.prefix:
        annotations[marks.PATH_PREFIX] = engine.prefix
    if engine.weight is not None:
        annotations[marks.WEIGHT] = f"{engine.weight:.9f}".rstrip("0").rstrip(".")
    # A cluster runs a program that does nothing in place of the engine, which runs elsewhere.
    spec = {"containers": [{"name": "engine", "image": "registry.k8s.io/pause:3.10"}]}
    pod = _object("v1", "Pod", engine.name, spec, annotations, labels)
    return {**pod, "status": status(engine.host, is_ready=engine.is_ready)}


def status(host: str, *, is_ready: bool) -> dict[str, Any]:
    """The status of a Pod that is elsewhere."""
    condition = {"type": "Ready", "status": "True" if is_ready else "False"}
    return {"phase": "Running", "podIP": host, "conditions": [condition]}


def _object(
    api_version: str,
    kind: str,
    name: str,
    spec: dict[str, Any],
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


class _Names:
    """Names of objects, made of those of models; the second of two that would be equal gets a hash."""

    def __init__(self) -> None:
        self._taken: set[tuple[str, str]] = set()

    def take(self, kind: str, model: str) -> str:
        name = slug(model, 54)
        number = 0
        while (kind, name) in self._taken:
            digest = hashlib.sha256(f"{model}/{number}".encode()).hexdigest()[:8]
            name, number = f"{slug(model, 54)}-{digest}", number + 1
        self._taken.add((kind, name))
        return name
