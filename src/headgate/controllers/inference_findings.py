"""Findings about InferencePools, and the objects that refer to them, as gateways see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headgate import api, routing
from headgate.api import gie_v1, marks
from headgate.controllers.conditions import Finding, enumerated
from headgate.controllers.findings import (
    ACCEPTED,
    NO_READY_ENDPOINTS,
    READY,
    RESOLVED_REFS,
    acceptance,
    endpoints_ready,
    in_words,
    may_serve,
    problems_of,
    unusable,
)
from headgate.controllers.relations import InferencePool, Subject, selector, subject

ROUTED, CONFLICTED = "Routed", "Conflicted"
INVALID_EXTENSION_REF, NO_ROUTE = "InvalidExtensionRef", "NoRoute"
_LISTED = 1024
"""Length of a list of names within a longer message."""


def of_model(model: api.InferenceModel, snapshot: routing.Snapshot) -> list[Finding]:
    """`snapshot` has the model, its pool, and other objects with its name, as far as they exist."""
    return [_model_accepted(model, snapshot), _pool_found(model, snapshot, RESOLVED_REFS, "ResolvedRefs")]


def of_addition(
    obj: api.InferenceObjective | api.InferenceModelRewrite, snapshot: routing.Snapshot
) -> list[Finding]:
    """An object that adds to a pool. `snapshot` has the object and its pool, if that exists."""
    return [_pool_found(obj, snapshot, ACCEPTED, "Accepted")]


def of_pool(
    pool: InferencePool,
    snapshot: routing.Snapshot,
    pods: Sequence[api.Pod],
    *,
    models: Sequence[api.InferenceModel],
    picker: api.Service | None,
    shared: Mapping[str, Sequence[Subject]],
) -> list[Finding]:
    """`pods` are those that the pool selects, and `shared` the other pools that select each, by its name;
    `models` are the InferenceModels that name the pool; `picker` is the Service that it names; `snapshot` has
    the pool, these models, and other objects with their names and with those in its annotation.
    """
    pods = [pod for pod in pods if may_serve(pod)]
    found = [acceptance(pool, snapshot)]
    if (lacking := unusable(pool, snapshot)) is not None:
        found.append(lacking)
    elif isinstance(pool, gie_v1.InferencePool):
        found.append(_picker(pool, picker))
    return [*found, _routed(pool, snapshot, models), _conflicted(pods, shared), _ready(pool, snapshot, pods)]


def has_no_route(status: api.ObservedStatus) -> bool:
    """Whether the status of a pool says that neither models nor its annotation lead to it."""
    return any((each.type, each.reason) == (ROUTED, NO_ROUTE) for each in status.conditions)


def _model_accepted(model: api.InferenceModel, snapshot: routing.Snapshot) -> Finding:
    if not model.spec.model_name:
        why = "spec.modelName is empty: no request matches this object"
        return Finding(ACCEPTED, False, "NoModelName", why)
    found = acceptance(model, snapshot)
    routes = _own(subject(model), snapshot)
    if not found.holds or not routes:
        return found
    if takers := routing.takers(snapshot, routes[0]):
        return Finding(ACCEPTED, False, "Shadowed", f"No request is routed here: {_listed(takers)}")
    if routes[0].is_reserved:
        why = "every weight of spec.targetModels is 0: the name is reserved, and its requests are rejected"
        return Finding(ACCEPTED, True, "Accepted", why)
    return found


def _own(owner: Subject, snapshot: routing.Snapshot) -> list[routing.Route]:
    """The routes that it defines, one for each name."""
    return [route for route in snapshot.routes() if route.key == owner.ref]


def _pool_found(
    obj: api.InferenceModel | api.InferenceObjective | api.InferenceModelRewrite,
    snapshot: routing.Snapshot,
    condition: str,
    reason: str,
) -> Finding:
    lacking = [each for each in problems_of(obj, snapshot) if each.reason == routing.REF_NOT_FOUND]
    if lacking:
        return Finding(condition, False, routing.REF_NOT_FOUND, in_words(lacking))
    return Finding(condition, True, reason, "The pool exists")


def _picker(pool: gie_v1.InferencePool, service: api.Service | None) -> Finding:
    """Headgate's gateway picks endpoints itself, so that a missing picker only affects other gateways."""
    reference = pool.spec.endpoint_picker_ref
    if reference is None:
        why = "No picker is named: Headgate's gateway picks endpoints itself"
        return Finding(RESOLVED_REFS, True, "ResolvedRefs", why)
    wrong = ""
    if reference.group or reference.kind != "Service":
        wrong = f"{reference.kind} of group {reference.group or 'core'} is not known here"
    elif service is None:
        key = f"{pool.metadata.namespace}/{reference.name}"
        wrong = f"there is no Service {key}, or it may not be read"
    elif service.spec.get("type") == "ExternalName":
        wrong = f"Service {service.metadata.key} is of type ExternalName, which cannot be a picker"
    if wrong:
        refuses = reference.failure_mode == "FailClose"
        others = "refuse requests" if refuses else "send requests to any endpoint"
        why = f"spec.endpointPickerRef: {wrong}. Headgate's gateway picks itself and serves"
        why += f"; gateways that ask the picker {others}"
        return Finding(RESOLVED_REFS, False, INVALID_EXTENSION_REF, why)
    return Finding(
        RESOLVED_REFS, True, "ResolvedRefs", "The picker exists; Headgate's gateway picks endpoints itself"
    )


def _routed(pool: InferencePool, snapshot: routing.Snapshot, models: Sequence[api.InferenceModel]) -> Finding:
    """Whether and how requests reach the pool. Of several models for one name, only one has a route."""
    route_of = {route.key: route for route in snapshot.routes()}
    of_models = [route for model in models if (route := route_of.get(subject(model).ref)) is not None]
    of_names = _own(subject(pool), snapshot)
    taken = {
        id(route): takers for route in of_models + of_names if (takers := routing.takers(snapshot, route))
    }
    leading = [route.key.key for route in of_models if id(route) not in taken and not route.is_reserved]
    names = [route.model or "*" for route in of_names if id(route) not in taken]
    ways = [f"InferenceModels that name it: {_listed(leading)}"] if leading else []
    ways += [f"names in its annotation {marks.MODELS}: {_listed(names)}"] if names else []
    lost = _listed(dict.fromkeys(str(taker) for takers in taken.values() for taker in takers))
    if ways and lost:
        return Finding(ROUTED, True, "PartlyShadowed", f"By {' and '.join(ways)}. Not for some names: {lost}")
    if ways:
        return Finding(ROUTED, True, "Routed", f"By {' and '.join(ways)}")
    if lost:
        return Finding(ROUTED, False, "Shadowed", f"No request is routed here: {lost}")
    if of_models:
        why = (
            "No request is routed here: names are only reserved, by "
            f"{_listed(route.key for route in of_models)}"
        )
        return Finding(ROUTED, False, "NamesReserved", why)
    why = (
        "No request is routed here: name this pool in spec.poolRef of an InferenceModel (group "
        f"{pool.resource.group}), or set its annotation {marks.MODELS} to the names of its models, or to "
        "* for all names that no other object serves"
    )
    return Finding(ROUTED, False, NO_ROUTE, why)


def _conflicted(pods: Sequence[api.Pod], shared: Mapping[str, Sequence[Subject]]) -> Finding:
    lines = [
        f"{pod.metadata.key} by {', '.join(map(str, others))}"
        for pod in sorted(pods, key=lambda pod: pod.metadata.key)
        if (others := shared[str(pod.metadata.key)])
    ]
    if not lines:
        return Finding(CONFLICTED, False, "NoConflicts", "No other pool selects its Pods")
    return Finding(CONFLICTED, True, "PodsShared", f"Also selected by other pools: {_listed(lines)}")


def _ready(pool: InferencePool, snapshot: routing.Snapshot, pods: Sequence[api.Pod]) -> Finding:
    made = snapshot.pools[subject(pool).ref]
    labels = selector(pool)
    if made.fault:
        return Finding(READY, False, NO_READY_ENDPOINTS, f"No Pod gets requests: {made.fault}")
    if not labels:
        return Finding(READY, False, "EmptySelector", "spec.selector is empty and selects nothing")
    if not pods and made.start is None:
        wanted = enumerated(f"{key}={value}" for key, value in labels.items())
        why = f"No Pod in namespace {pool.metadata.namespace} has the labels {wanted}"
        return Finding(READY, False, "NoPodsSelected", why)
    ports = len(pool.spec.target_ports) if isinstance(pool, gie_v1.InferencePool) else 1
    told = f"{len(made.endpoints)} of {len(pods)} Pods ready"
    if ports > 1:
        told = f"{len(made.endpoints)} endpoints ready, of {ports} ports of {len(pods)} Pods"
    return endpoints_ready(made, told)


def _listed(items: Iterable[object]) -> str:
    return enumerated(map(str, items), limit=_LISTED)
