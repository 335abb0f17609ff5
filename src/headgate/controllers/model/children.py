"""The objects that a Model should have, made from the Model and from what is observed of its workloads."""

from __future__ import annotations

from dataclasses import dataclass

from headgate import api
from headgate.controllers.model import routes, servers, workloads
from headgate.controllers.model.scope import Child, Observed, Problem, Scope
from headgate.controllers.model.settings import ModelSettings

__all__ = ["Child", "Children", "Observed", "Problem", "children_of"]


@dataclass(frozen=True)
class Children:
    """The objects of a Model, each once, and what could not be done."""

    children: tuple[Child, ...]
    problems: tuple[Problem, ...] = ()


def children_of(model: api.Model, settings: ModelSettings, observed: Observed) -> Children:
    """The objects that the Model should have. Only objects that can work are among them: a Problem explains
    each that is missing."""
    scope = Scope(model, settings, observed)
    found: list[Child] = []
    for index, backend in enumerate(model.spec.backends):
        found += workloads.of_backend(scope, index, backend)
        found.append(servers.of_backend(scope, backend))
    found += routes.of_model(scope)
    return Children(tuple(found), tuple(scope.problems))
