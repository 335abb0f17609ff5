"""What a Model should have, given what it has: its objects, those that must go, and its status. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headgate import api
from headgate.api.kthena_registry import ModelBackend
from headgate.controllers.model import names, status, troubles
from headgate.controllers.model.children import Children, Observed, children_of
from headgate.controllers.model.observed import (
    WORKLOADS,
    Id,
    Known,
    KnownPod,
    KnownRoute,
    KnownSecret,
    KnownWorkload,
)
from headgate.controllers.model.settings import ModelSettings
from headgate.controllers.model.status import BackendState

_SERVER: Final = api.ModelServer.resource.plural


@dataclass(frozen=True)
class Desired:
    """What to do about a Model, and how it stands."""

    children: Children
    unwanted: Sequence[Known]
    """Objects to delete now."""
    leaving: Sequence[str]
    """ModelServers of former backends that serve until the new ones do."""
    states: Sequence[BackendState]
    lingering: Sequence[str] = ()
    """What is still there because some gateway may not know that it goes, by kind and name."""


def desired_of(
    model: api.Model,
    settings: ModelSettings,
    objects: Mapping[Id, Known],
    pods: Collection[KnownPod],
    scaled: Collection[str] = (),
) -> Desired:
    """`objects` are those that the Model has; `scaled`, the names of workloads that autoscalers scale,
    besides those of the Model's own bindings."""
    placed, called = _placed(objects), _called(objects)
    children = children_of(model, settings, Observed(placed=placed, called=called))
    wanted = {child.id for child in children.children}
    workloads = [each for each in objects.values() if isinstance(each, KnownWorkload)]
    current = [each for each in workloads if identity(each) in wanted]
    bound = {*scaled, *_bound(children)}
    observed = Observed(
        ready={each.metadata.name: each.status.ready_replicas for each in current},
        scaled={each.metadata.name: each.spec.replicas for each in current if each.metadata.name in bound},
        placed=placed,
        called=called,
    )
    if current:
        children = children_of(model, settings, observed)
    states = _states(model, children, objects, pods)
    rest = [obj for key, obj in objects.items() if key not in wanted and not isinstance(obj, KnownSecret)]
    if not rest:
        return Desired(children, (), (), states)
    serving = _serving(rest)  # among them, backends that cannot be built as they are written now
    if all(state.serves for state in states):
        serving = frozenset()
    leaving = sorted(
        obj.metadata.name
        for obj in objects.values()
        if obj.resource.plural == _SERVER and _backend(obj.metadata) in serving
    )
    if leaving:
        children = children_of(model, settings, dataclasses.replace(observed, leaving=leaving))
    wanted = {child.id for child in children.children}
    kept = serving | {names.shortened(name, names.LONGEST_LABEL) for name in children.unbuilt}
    unwanted = [
        obj
        for obj in rest
        if identity(obj) not in wanted and (_backend(obj.metadata) not in kept or _goes_at_once(obj))
    ]
    return Desired(children, unwanted, leaving, states)


def identity(obj: Known) -> Id:
    return obj.resource.plural, obj.metadata.name


def _placed(objects: Mapping[Id, Known]) -> dict[str, str]:
    """The ModelRoute that has an adapter, by the adapter's name."""
    routes = (obj for obj in objects.values() if isinstance(obj, KnownRoute))
    return {adapter: route.metadata.name for route in routes for adapter in route.spec.lora_adapters}


def _called(objects: Mapping[Id, Known]) -> dict[str, str]:
    """The names of models that ModelRoutes are for."""
    routes = (obj for obj in objects.values() if isinstance(obj, KnownRoute))
    return {route.metadata.name: route.spec.model_name for route in routes}


def _bound(children: Children) -> set[str]:
    """Workloads that the Model's own bindings scale."""
    found = set()
    for child in children.children:
        if child.kind is not api.AutoscalingPolicyBinding:
            continue
        spec = child.manifest["spec"]
        one = spec.get("scalingConfiguration")
        params = spec.get("optimizerConfiguration", {}).get("params", [])
        found |= {each["target"]["targetRef"]["name"] for each in (*params, *([one] if one else []))}
    return found


def _states(
    model: api.Model,
    children: Children,
    objects: Mapping[Id, Known],
    pods: Collection[KnownPod],
) -> list[BackendState]:
    states = []
    for backend in model.spec.backends:
        if backend.name in children.unbuilt:
            states.append(_unbuilt(backend, children))
            continue
        state = status.state_of(backend, children.children, objects)
        label = names.shortened(backend.name, names.LONGEST_LABEL)
        own = [pod for pod in pods if _backend(pod.metadata) == label]
        found = [trouble for pod in own if (trouble := troubles.of_pod(pod))]
        for child in status.workloads_of(backend, children.children):
            known = objects.get(child.id)
            failure = known.failure if isinstance(known, KnownWorkload) else ""
            if failure:
                told = f"{child.kind.resource.kind} {child.name}: {troubles.plain(failure)}"
                found.append(troubles.Trouble(troubles.PODS_REJECTED, told))
        states.append(state._replace(trouble=troubles.worst(found)))
    return states


def _unbuilt(backend: ModelBackend, children: Children) -> BackendState:
    """A backend that cannot run as it is written."""
    told = "; ".join(f"{problem.field}: {problem.message}" for problem in children.problems)
    trouble = troubles.Trouble(troubles.NOT_SUPPORTED, told[: troubles.LONGEST])
    return BackendState(backend.name, backend.min_replicas, 0, 0, trouble)


def _serving(rest: Sequence[Known]) -> frozenset[str]:
    """Labels of former backends that have a ready replica."""
    return frozenset(
        _backend(obj.metadata)
        for obj in rest
        if isinstance(obj, KnownWorkload) and obj.status.ready_replicas > 0
    )


def serves(obj: Known) -> bool:
    """Whether requests may go by the object."""
    if isinstance(obj, KnownWorkload):
        return obj.status.ready_replicas > 0
    return obj.resource.plural in (_SERVER, api.ModelRoute.resource.plural)


def _goes_at_once(obj: Known) -> bool:
    """Whether it does not matter if former Pods still serve: policies, bindings and routes."""
    return obj.resource.plural not in (*WORKLOADS, _SERVER)


def _backend(metadata: api.ObjectMeta) -> str:
    return metadata.labels.get(names.BACKEND_NAME, "")
