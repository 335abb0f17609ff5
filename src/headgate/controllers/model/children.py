"""The objects that a Model should have, made from the Model and from what is observed of its workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headgate import api
from headgate.controllers.model import backends, pods, policies, routes, servers, sizes, workloads
from headgate.controllers.model.backends import Backend
from headgate.controllers.model.pods import StartAdapter
from headgate.controllers.model.scope import Child, Observed, Problem, Scope
from headgate.controllers.model.settings import ModelSettings
from headgate.engines.launch import Adapters

__all__ = ["Child", "Children", "Observed", "Problem", "RunTimeAdapter", "Sidecar", "children_of"]


class RunTimeAdapter(NamedTuple):
    """An adapter that the sidecar loads into its engine."""

    name: str
    source: str
    directory: str
    """Where it is, if it need not be downloaded; else empty."""


class Sidecar(NamedTuple):
    """What to tell the sidecars of a backend's Pods."""

    port: int
    adapters: tuple[RunTimeAdapter, ...] | None
    """All that the engine should have; None if it has them from its start, or never."""


@dataclass(frozen=True)
class Children:
    """The objects of a Model, each once, and what could not be done."""

    children: tuple[Child, ...]
    problems: tuple[Problem, ...] = ()
    unbuilt: frozenset[str] = frozenset()
    """Names of backends that have no objects, because they cannot run as they are written: what they have
    had so far should stay."""
    sidecars: Mapping[str, Sidecar] = field(default_factory=dict)
    """By the name of the backend."""
    at_start: Mapping[str, tuple[StartAdapter, ...]] = field(default_factory=dict)
    """Adapters that engines load at their start, by the name of the backend."""


def children_of(model: api.Model, settings: ModelSettings, observed: Observed) -> Children:
    """The objects that the Model should have. Only objects that can work are among them: a Problem explains
    each that is missing."""
    if (excess := sizes.excess(model)) is not None:
        return Children((), (excess,), frozenset(backend.name for backend in model.spec.backends))
    scope = Scope(model, settings, observed)
    taken: set[str] = set()
    planned = [backends.plan(scope, index, taken) for index in range(len(model.spec.backends))]
    built = [backend for backend in planned if backend is not None]
    found: list[Child] = []
    for backend in built:
        found += workloads.of_backend(scope, backend)
        found.append(servers.of_backend(scope, backend))
    found += routes.of_model(scope, built)
    found += policies.of_model(scope, built)
    unbuilt = frozenset(
        backend.name for backend, plan in zip(model.spec.backends, planned, strict=True) if plan is None
    )
    sidecars = {backend.spec.name: _sidecar(backend) for backend in built}
    at_start = {backend.spec.name: pods.start_adapters(backend) for backend in built}
    return Children(tuple(found), tuple(scope.problems), unbuilt, sidecars, at_start)


def _sidecar(backend: Backend) -> Sidecar:
    if backend.loading is not Adapters.RUN_TIME:
        return Sidecar(backend.runtime.port, None)
    sources = zip(backend.spec.lora_adapters, backend.storage.adapters, strict=True)
    adapters = tuple(
        RunTimeAdapter(adapter.name, source.uri, source.directory if source.in_place else "")
        for adapter, source in sources
        if adapter in backend.adapters
    )
    return Sidecar(backend.runtime.port, adapters)
