"""Findings about ModelRoutes and ModelServers, from the snapshot that gateways use for routing.

They describe the translated snapshot, not the objects: anything that a gateway ignores is not accepted here,
and anything without an endpoint is not ready here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from headgate import api, routing
from headgate.controllers.conditions import Finding, enumerated
from headgate.controllers.relations import Observed, Pool, subject

ACCEPTED, RESOLVED_REFS, READY = "Accepted", "ResolvedRefs", "Ready"
NO_READY_ENDPOINTS = "NoReadyEndpoints"
SCALED_TO_ZERO, START_FAILED = "ScaledToZero", "StartFailed"


def of_route(route: api.ModelRoute, snapshot: routing.Snapshot) -> list[Finding]:
    """`snapshot` has the route and every existing ModelServer that it names."""
    used = _in_use(route, snapshot)
    accepted = _without_name()
    if used is not None:
        accepted = acceptance(route, snapshot)
        accepted = _shadowed(used, snapshot) or accepted if accepted.holds else accepted
    rules = used.rules if used else ()
    return [accepted, _references(route, snapshot), _route_ready(route, rules, snapshot, accepted)]


def of_server(server: api.ModelServer, snapshot: routing.Snapshot, pods: Sequence[api.Pod]) -> list[Finding]:
    """`pods` are those that the server selects; `snapshot` has the server's pool."""
    pods = [pod for pod in pods if may_serve(pod)]
    references = unusable(server, snapshot) or _selection(server, snapshot, pods)
    return [acceptance(server, snapshot), references, _server_ready(server, snapshot, pods)]


def may_serve(pod: api.Pod) -> bool:
    """Whether a Pod can still serve: not terminating and not ended, or still ready."""
    return pod.ready or (pod.metadata.deletion_timestamp is None and not pod.ended)


def acceptance(obj: Observed, snapshot: routing.Snapshot) -> Finding:
    """Whether every field of the object itself is in use, apart from its references."""
    own = [each for each in problems_of(obj, snapshot) if each.reason not in routing.UNRESOLVED]
    if not own:
        return Finding(ACCEPTED, True, "Accepted", "Every field is in use")
    return Finding(ACCEPTED, False, own[0].reason, in_words(own))


def problems_of(obj: Observed, snapshot: routing.Snapshot) -> list[routing.Problem]:
    """The problems that the translation found in it."""
    whose = subject(obj).ref
    return [each for each in snapshot.problems if (each.kind, each.key) == (whose.kind, whose.key)]


def in_words(problems: Sequence[routing.Problem]) -> str:
    return enumerated((f"{problem.field}: {problem.message}" for problem in problems), "; ")


def _without_name() -> Finding:
    told = "spec.modelName and spec.loraAdapters are empty: no request matches this route"
    return Finding(ACCEPTED, False, "NoModelName", told)


def _shadowed(route: routing.Route, snapshot: routing.Snapshot) -> Finding | None:
    """The requests that the route never gets; None if it may get some for each of its names."""
    takers = routing.takers(snapshot, route)
    if not takers:
        return None
    told = enumerated(map(str, takers), "; ")
    if len(takers) == len({route.model, *route.adapters} - {None}):
        return Finding(ACCEPTED, False, "Shadowed", f"No request is routed here: {told}")
    return Finding(ACCEPTED, True, "PartlyShadowed", f"Requests for some names are not routed here: {told}")


def _in_use(route: api.ModelRoute, snapshot: routing.Snapshot) -> routing.Route | None:
    """The route in the gateways' snapshot."""
    ref = api.ObjectRef(route.resource.kind, *route.metadata.key)
    return next((each for each in snapshot.routes() if each.key == ref), None)


def _references(route: api.ModelRoute, snapshot: routing.Snapshot) -> Finding:
    """Check the spec rather than the translation, because an ignored rule may also have missing targets."""
    missing: dict[api.ObjectRef, str] = {}
    for index, rule in enumerate(route.spec.rules):
        for place, target in enumerate(rule.target_models):
            key = api.ObjectRef(routing.MODEL_SERVER, route.metadata.namespace, target.model_server_name)
            if key not in snapshot.pools:
                missing.setdefault(key, f"spec.rules[{index}].targetModels[{place}].modelServerName")
    if not missing:
        return Finding(RESOLVED_REFS, True, "ResolvedRefs", "Every referenced ModelServer exists")
    told = enumerated(f"{key.key} ({field})" for key, field in missing.items())
    return Finding(RESOLVED_REFS, False, routing.MODEL_SERVER_NOT_FOUND, f"There is no ModelServer {told}")


def _route_ready(
    route: api.ModelRoute, rules: Sequence[routing.Rule], snapshot: routing.Snapshot, accepted: Finding
) -> Finding:
    if not route.spec.rules:
        return Finding(READY, False, "NoRules", "spec.rules is empty: every request gets a 404")
    lacks = [lack for rule in rules if (lack := _lack(rule, snapshot))]
    if lacks:
        return Finding(READY, False, NO_READY_ENDPOINTS, enumerated(lacks, "; "))
    if len(rules) < len(route.spec.rules):
        return Finding(READY, False, accepted.reason, f"Not all rules are in use: {accepted.message}")
    targets = dict.fromkeys(key for rule in rules for key in _serving(rule))
    empty = [key for key in targets if not _is_ready(key, snapshot)]
    counted = _endpoints_behind([key for key in targets if key not in empty], snapshot)
    if empty:
        told = f"{counted}; but requests for these targets fail: {_names(empty)}"
        return Finding(READY, True, "EndpointsPartlyReady", told)
    return Finding(READY, True, "EndpointsReady", counted)


def _endpoints_behind(keys: Collection[api.ObjectRef], snapshot: routing.Snapshot) -> str:
    """An endpoint selected by several ModelServers counts once."""
    endpoints = len(set[routing.Endpoint]().union(*(snapshot.pools[key].endpoints for key in keys)))
    told = f"{_count(endpoints, 'endpoint')} in {_count(len(keys), 'ModelServer')}"
    started = [key for key in keys if not snapshot.pools[key].answering]
    return f"{told}; started by requests: {_names(started)}" if started else told


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _lack(rule: routing.Rule, snapshot: routing.Snapshot) -> str | None:
    """Why no request that matches the rule can be served."""
    keys = _serving(rule)
    if not keys:
        return f"rule {rule.name} has no target with a weight above 0"
    if any(_is_ready(key, snapshot) for key in keys):
        return None
    return f"rule {rule.name} has no ready endpoint in {_names(keys)}"


def _serving(rule: routing.Rule) -> list[api.ObjectRef]:
    return [target.pool for target in rule.targets if target.weight > 0]


def _is_ready(key: api.ObjectRef, snapshot: routing.Snapshot) -> bool:
    """Whether requests are served, maybe after a start."""
    pool = snapshot.pools.get(key)
    return pool is not None and (bool(pool.answering) or _starts(pool))


def _starts(pool: routing.Pool) -> bool:
    return pool.start is not None and not pool.start.failure and not pool.fault


def _names(keys: Iterable[api.ObjectRef]) -> str:
    return enumerated(str(key.key) for key in dict.fromkeys(keys))


def unusable(pool: Pool, snapshot: routing.Snapshot) -> Finding | None:
    """Named or selected Secrets and Pods that cannot be used; None if there are none."""
    lacking = [each for each in problems_of(pool, snapshot) if each.reason in routing.UNRESOLVED]
    return Finding(RESOLVED_REFS, False, lacking[0].reason, in_words(lacking)) if lacking else None


def _selection(server: api.ModelServer, snapshot: routing.Snapshot, pods: Sequence[api.Pod]) -> Finding:
    labels = server.spec.workload_selector.match_labels
    if not labels:
        told = "spec.workloadSelector.matchLabels is empty and selects nothing: set the labels of the Pods"
        return Finding(RESOLVED_REFS, False, "EmptySelector", told)
    if not pods and snapshot.pools[api.ObjectRef(routing.MODEL_SERVER, *server.metadata.key)].start:
        return Finding(RESOLVED_REFS, True, SCALED_TO_ZERO, "There are no Pods until requests start them")
    if not pods:
        wanted = enumerated(f"{key}={value}" for key, value in labels.items())
        told = f"No Pod in namespace {server.metadata.namespace} has the labels {wanted}"
        return Finding(RESOLVED_REFS, False, "NoPodsSelected", told)
    return Finding(RESOLVED_REFS, True, "ResolvedRefs", "spec.workloadSelector selects Pods")


def _server_ready(server: api.ModelServer, snapshot: routing.Snapshot, pods: Sequence[api.Pod]) -> Finding:
    pool = snapshot.pools[api.ObjectRef(routing.MODEL_SERVER, *server.metadata.key)]
    if pool.fault:
        return Finding(READY, False, NO_READY_ENDPOINTS, f"No Pod gets requests: {pool.fault}")
    return endpoints_ready(pool, f"{len(pool.endpoints)} of {len(pods)} Pods ready")


def endpoints_ready(pool: routing.Pool, told: str) -> Finding:
    """Whether any endpoint can serve responses; `told` has the number of endpoints."""
    answering = len(pool.answering)
    if not answering and pool.start is not None:
        return _at_zero(pool.start, told)
    if pool.phases is not None:
        prefilling = sum(role.prefills for role in pool.phases.roles.values())
        told += f": {prefilling} prefill, {answering} decode"
    reason = "EndpointsReady" if answering else NO_READY_ENDPOINTS
    return Finding(READY, answering > 0, reason, told)


def _at_zero(start: routing.Start, told: str) -> Finding:
    """A pool without endpoints that requests start: it serves them, unless its start failed."""
    if start.failure:
        return Finding(READY, False, START_FAILED, f"{told}: it could not be started: {start.failure}")
    expected = f"which is expected to take {start.expected_s:g} s"
    return Finding(READY, True, SCALED_TO_ZERO, f"{told}: the next request starts it, {expected}")
