"""The objects that a Model should have, made from the Model and from what is observed of its workloads."""

from __future__ import annotations

from dataclasses import dataclass

from headgate import api
from headgate.controllers.model import backends, policies, routes, servers, workloads
from headgate.controllers.model.scope import Child, Observed, Problem, Scope
from headgate.controllers.model.settings import ModelSettings

__all__ = ["Child", "Children", "Observed", "Problem", "children_of"]


@dataclass(frozen=True)
class Children:
    """The objects of a Model, each once, and what could not be done."""

    children: tuple[Child, ...]
    problems: tuple[Problem, ...] = ()
    unbuilt: frozenset[str] = frozenset()
    """Names of backends that have no objects, because they cannot run as they are written: what they have
    had so far should stay."""


def children_of(model: api.Model, settings: ModelSettings, observed: Observed) -> Children:
    """The objects that the Model should have. Only objects that can work are among them: a Problem explains
    each that is missing."""
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
    return Children(tuple(found), tuple(scope.problems), unbuilt)
