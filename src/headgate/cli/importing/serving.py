"""What would be served how, by the translation that gateways use and the findings of controllers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from headgate import api, routing
from headgate.api import gie_v1, gie_v1alpha1
from headgate.cli.importing.report import (
    EndpointReport,
    NameReport,
    PoolReport,
    RouteReport,
    RuleReport,
    TargetReport,
    Trouble,
)
from headgate.cli.route.sources import Objects, absent_pods
from headgate.controllers import assessment, findings, inference_findings, relations
from headgate.controllers.object_index import ObjectIndex

_NOW = "1970-01-01T00:00:00Z"
"""The time of the conditions, which are not written."""
_PARTLY = "PartlyShadowed"


class Served(NamedTuple):
    names: tuple[NameReport, ...]
    pools: tuple[PoolReport, ...]
    troubles: tuple[Trouble, ...]


class Workload(NamedTuple):
    """Makes Pods with these labels."""

    name: str
    """Kind, namespace and name."""
    namespace: str
    labels: Mapping[str, str]


def serve(
    objects: Objects, workloads: Sequence[Workload], *, knows_pods: bool, routed: Set[str] = frozenset()
) -> Served:
    """`knows_pods`: whether `objects` has the Pods, so that a pool without Pods is a trouble. `routed`: pools
    that need no model name, as HTTPRoutes lead to them."""
    snapshot = objects.snapshot()
    pods: defaultdict[str, list[api.Pod]] = defaultdict(list)
    for pod in objects.pods:
        pods[pod.metadata.namespace].append(pod)
    by_ref = {routing.ref_of(pool): pool for pool in objects.pools}
    pools = tuple(
        _pool(pool, by_ref[ref], pods[ref.namespace], workloads) for ref, pool in snapshot.pools.items()
    )
    troubles = [
        each
        for each in _troubles(objects, knows_pods=knows_pods)
        if each.reason != inference_findings.NO_ROUTE or each.object not in routed
    ]
    return Served(tuple(_names(snapshot)), pools, tuple(troubles))


def _names(snapshot: routing.Snapshot) -> Iterator[NameReport]:
    for name in snapshot.names():
        routes = snapshot.models.get(name)
        kind, routes = ("model", routes) if routes is not None else ("adapter", snapshot.adapters[name])
        yield NameReport(name, kind, _routes(routes, snapshot))  # type: ignore[arg-type]
    if snapshot.unknown:
        yield NameReport("*", "any other name", _routes(snapshot.unknown, snapshot))


def _routes(routes: Sequence[routing.Route], snapshot: routing.Snapshot) -> tuple[RouteReport, ...]:
    return tuple(
        RouteReport(
            str(route.key),
            tuple(_rule(rule, snapshot) for rule in route.rules),
            route.priority,
            route.is_reserved,
        )
        for route in routes
    )


def _rule(rule: routing.Rule, snapshot: routing.Snapshot) -> RuleReport:
    total = sum(target.weight for target in rule.targets)
    targets = []
    for target in rule.targets:
        pool = snapshot.pools.get(target.pool)
        model = target.model or (pool.model if pool else None) or ""
        share = target.weight / total if total else 0.0
        targets.append(TargetReport(str(target.pool), target.weight, share, model))
    return RuleReport(rule.name, routing.conditions(rule.pattern), tuple(targets))


def _pool(
    pool: routing.Pool, source: routing.PoolObject, pods: list[api.Pod], workloads: Iterable[Workload]
) -> PoolReport:
    """`pods`: those of its namespace."""
    namespace, labels = routing.selector_of(source)
    roles = pool.phases.roles if pool.phases is not None else {}
    endpoints = [EndpointReport(each.name, each.address, _role(roles.get(each))) for each in pool.endpoints]
    return PoolReport(
        pool=str(pool.key),
        engine=pool.engine,
        protocol=f"{'https' if pool.tls else 'http'}{'/2' if pool.http2 else ''}",
        port=_ports(source),
        selector=dict(labels),
        endpoints=tuple(endpoints),
        workloads=tuple(
            each.name
            for each in workloads
            if each.namespace == namespace and labels and labels.items() <= each.labels.items()
        ),
        absent=absent_pods(source, pods),
    )


def _role(role: routing.Role | None) -> str:
    if role is None or (role.prefills and role.decodes):
        return ""
    return "prefill" if role.prefills else "decode"


def _ports(source: routing.PoolObject) -> str:
    if isinstance(source, api.ModelServer):
        return str(source.spec.workload_port.port) if source.spec.workload_port else ""
    if isinstance(source, gie_v1.InferencePool):
        return ", ".join(str(port.number) for port in source.spec.target_ports)
    assert isinstance(source, gie_v1alpha1.InferencePool)
    return str(source.spec.target_port_number)


def _troubles(objects: Objects, *, knows_pods: bool) -> Iterator[Trouble]:
    """The conditions that controllers would write, as far as they are bad."""
    inference = objects.inference
    every: list[relations.Observed] = [
        *objects.routes,
        *objects.servers,
        *inference.pools,
        *inference.models,
        *inference.objectives,
    ]
    index = ObjectIndex()
    for obj in every:
        index.put(relations.subject(obj), obj)
    for pod in objects.pods:
        index.put_pod(pod.metadata.key, pod)
    for secret in objects.secrets:
        index.put_secret(secret.metadata.key, secret)
    for obj in every:
        bad = [
            condition
            for condition in assessment.status_of(obj, index, _NOW).conditions
            if _is_bad(condition, obj, knows_pods=knows_pods)
        ]
        if len(bad) > 1:  # without Pods or with a fault, it is not ready either
            bad = [condition for condition in bad if condition.type != findings.READY]
        for condition in bad:
            yield Trouble(str(relations.subject(obj)), condition.reason, condition.message)


def _is_bad(condition: api.Condition, obj: relations.Observed, *, knows_pods: bool) -> bool:
    if condition.type == inference_findings.CONFLICTED:
        return condition.status == "True"
    if condition.reason == _PARTLY:
        return True
    if condition.status == "True" or condition.reason == inference_findings.INVALID_EXTENSION_REF:
        return False
    if condition.type == findings.READY:
        # A route without an endpoint is a trouble of its pool.
        return condition.reason == "NoRules" or (knows_pods and not isinstance(obj, api.ModelRoute))
    return knows_pods or condition.reason != "NoPodsSelected"
