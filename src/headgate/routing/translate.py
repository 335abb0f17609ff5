"""From the objects of the dialects to one Snapshot; run once per change, never per request.

What cannot be translated is left out and becomes a Problem: one bad object never stops the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from headgate import api
from headgate.api import duration, marks
from headgate.api.addresses import Address
from headgate.routing import patterns, phases, tls
from headgate.routing.kv_events import InvalidEventsAnnotationError, kv_events
from headgate.routing.limits import token_limits
from headgate.routing.metrics_pages import InvalidPageError, metrics_page
from headgate.routing.snapshot import (
    MODEL_ROUTE,
    MODEL_SERVER,
    Endpoint,
    KvEvents,
    MetricsPage,
    Pool,
    Problem,
    Route,
    Rule,
    Snapshot,
    Target,
)

NOT_IN_EFFECT = "NotInEffect"
"""Reason of a problem with a field that is valid, but that this version does not act on."""

MODEL_SERVER_NOT_FOUND = "ModelServerNotFound"
UNRESOLVED = frozenset(
    {
        MODEL_SERVER_NOT_FOUND,
        tls.SECRET_NOT_FOUND,
        tls.SECRET_KEY_NOT_FOUND,
        tls.INVALID_CERTIFICATE,
        phases.NO_ROLE,
        phases.NO_GROUP,
        phases.INCOMPLETE_GROUP,
    }
)
"""Reasons of problems that are about the objects named or selected, not about the one that does so."""

DEFAULT_PORT = 8000
"""Where an endpoint listens if neither its ModelServer nor its Pod says so: vLLM's own default."""


class _Context(NamedTuple):
    """What a part of an object needs to report a problem."""

    kind: str
    key: api.ObjectKey
    problems: list[Problem]

    def report(self, field: str, reason: str, message: str) -> None:
        self.problems.append(Problem(self.kind, self.key, field, reason, message))


def translate(
    routes: Iterable[api.ModelRoute],
    servers: Iterable[api.ModelServer],
    pods: Iterable[api.Pod],
    secrets: Iterable[api.Secret] = (),
) -> Snapshot:
    """Translates all objects; of Secrets those that `authorities_of` a ModelServer names.

    Order of the arguments' items does not matter.
    """
    problems: list[Problem] = []
    secret_of = {secret.metadata.key: secret for secret in secrets}
    pools = {}
    ordered_servers = sorted(servers, key=lambda server: server.metadata.key)
    pods_of = _pods_by_label(ordered_servers, pods)
    for server in ordered_servers:
        context = _Context(MODEL_SERVER, server.metadata.key, problems)
        pools[_ref(server)] = _pool(server, pods_of[_index_label(server)], secret_of, context)
    ordered = sorted(routes, key=lambda route: route.metadata.age_order)
    translated = [
        _route(route, pools.keys(), _Context(MODEL_ROUTE, route.metadata.key, problems)) for route in ordered
    ]
    return Snapshot(
        models=_by_name((route.model, route) for route in translated if route.model),
        adapters=_by_name((adapter, route) for route in translated for adapter in route.adapters),
        pools=pools,
        problems=tuple(problems),
    )


def _ref(server: api.ModelServer) -> api.ObjectRef:
    return api.ObjectRef(MODEL_SERVER, *server.metadata.key)


_Label = tuple[str, str, str]
"""Namespace, key and value."""


def _index_label(server: api.ModelServer) -> _Label:
    """One of the labels that the server selects by; no label of any Pod if it has none."""
    labels = server.spec.workload_selector.match_labels
    key = min(labels, default="")
    return server.metadata.namespace, key, labels.get(key, "")


def _pods_by_label(servers: list[api.ModelServer], pods: Iterable[api.Pod]) -> dict[_Label, list[api.Pod]]:
    """The ready Pods under one label of each server, so that a server looks at few that are not its own."""
    found: dict[_Label, list[api.Pod]] = {_index_label(server): [] for server in servers}
    for pod in pods:
        if pod.ready and pod.status.pod_ip:
            for key, value in pod.metadata.labels.items():
                label = (pod.metadata.namespace, key, value)
                if label in found:
                    found[label].append(pod)
    return found


def _by_name(named: Iterable[tuple[str, Route]]) -> dict[str, tuple[Route, ...]]:
    routes: dict[str, tuple[Route, ...]] = {}
    for name, route in named:
        routes[name] = (*routes.get(name, ()), route)
    return routes


def _pool(
    server: api.ModelServer,
    pods: list[api.Pod],
    secrets: Mapping[api.ObjectKey, api.Secret],
    context: _Context,
) -> Pool:
    spec = server.spec
    policy = spec.traffic_policy
    retry = policy.retry if policy else None
    verified, fault = None, ""
    try:
        verified = tls.settings(server, secrets)
    except tls.TlsError as error:
        fault = str(error)
        context.report(f"metadata.annotations[{error.annotation}]", error.reason, fault)
    found = {} if fault else dict(_endpoints(server, pods, context))
    roles = phases.phases(server, found, context.report)
    labels = {e: pod.metadata.labels for e, pod in found.items() if roles is None or e in roles.roles}
    return Pool(
        key=_ref(server),
        endpoints=tuple(labels),
        labels=labels,
        metrics_pages=dict(_metrics_pages({e: found[e] for e in labels}, context)),
        kv_events=dict(_kv_events(server, {e: found[e] for e in labels}, context)),
        phases=roles,
        engine=spec.inference_engine,
        scheduling_profile=server.metadata.annotations.get(marks.SCHEDULING_PROFILE, ""),
        model=spec.model or None,
        tls=verified,
        fault=fault,
        timeout_s=_seconds(policy.timeout if policy else None, "spec.trafficPolicy.timeout", context),
        attempts=max(retry.attempts, 0) if retry and retry.attempts is not None else None,
        retry_interval_s=_seconds(
            retry.retry_interval if retry else None, "spec.trafficPolicy.retry.retryInterval", context
        )
        or 0.0,  # without `retry` the next attempt follows at once, since it goes to another endpoint
    )


def _selects(labels: dict[str, str], pod: api.Pod) -> bool:
    """A selector without labels selects nothing: it would take every Pod of the namespace by accident."""
    return bool(labels) and labels.items() <= pod.metadata.labels.items()


def _seconds(text: str | None, field: str, context: _Context) -> float | None:
    if not text:
        return None
    try:
        seconds = duration.parse(text)
    except ValueError as error:
        context.report(field, "InvalidDuration", f"{text!r} is not a duration: {error}; it is ignored")
        return None
    return seconds if seconds > 0 else None


def _endpoints(
    server: api.ModelServer, pods: list[api.Pod], context: _Context
) -> Iterator[tuple[Endpoint, api.Pod]]:
    """The endpoints of the Pods that the server selects, each with its Pod."""
    labels, port = server.spec.workload_selector.match_labels, server.spec.workload_port
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if _selects(labels, pod):
            try:
                yield _endpoint(pod, port), pod
            except ValueError as error:
                told = f"Pod {pod.metadata.key}, metadata.annotations[{marks.ADDRESS}]: {error}"
                context.report("spec.workloadSelector", "InvalidAddress", told)


def _metrics_pages(
    pods: Mapping[Endpoint, api.Pod], context: _Context
) -> Iterator[tuple[Endpoint, MetricsPage]]:
    for endpoint, pod in pods.items():
        try:
            page = metrics_page(pod)
        except InvalidPageError as error:
            told = f"Pod {pod.metadata.key}, metadata.annotations[{error.annotation}]: {error}"
            context.report("spec.workloadSelector", tls.INVALID_ANNOTATION, told)
            continue
        if page is not None:
            yield endpoint, page


def _kv_events(
    server: api.ModelServer, pods: Mapping[Endpoint, api.Pod], context: _Context
) -> Iterator[tuple[Endpoint, KvEvents]]:
    for endpoint, pod in pods.items():
        try:
            events = kv_events(server, pod)
        except InvalidEventsAnnotationError as error:
            told = f"Pod {pod.metadata.key}, metadata.annotations[{error.annotation}]: {error}"
            context.report("spec.workloadSelector", tls.INVALID_ANNOTATION, told)
            continue
        if events is not None:
            yield endpoint, events


def _endpoint(pod: api.Pod, port: api.WorkloadPort | None) -> Endpoint:
    """A Pod's own annotations go before the port of the ModelServer, and that before the Pod's first port.

    Raises ValueError if the Pod's address is none.
    """
    notes = pod.metadata.annotations
    given = notes.get(marks.ADDRESS)
    address = Address.parse(given) if given else Address(pod.status.pod_ip)
    own = address.port or _port_number(notes.get(marks.PORT, ""))
    declared = [p.container_port for container in pod.spec.containers for p in container.ports]
    chosen = own or (port.port if port else None) or (declared[0] if declared else DEFAULT_PORT)
    return Endpoint(str(pod.metadata.key), address.host, chosen)


def _port_number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 65536 else None


def _route(route: api.ModelRoute, pools: Collection[api.ObjectRef], context: _Context) -> Route:
    if route.spec.rate_limit is not None:
        context.report(
            "spec.rateLimit", NOT_IN_EFFECT, "token limits are not enforced yet: there is no limit"
        )
    rules = []
    for index, rule in enumerate(route.spec.rules):
        try:
            pattern = _pattern(rule.model_match)
        except patterns.InvalidPatternError as error:
            # Such a rule never matches (R5): falling through to the next is what the references do.
            told = f"not a regular expression: {error}"
            context.report(f"spec.rules[{index}].modelMatch", "InvalidPattern", told)
            continue
        targets = tuple(
            Target(
                api.ObjectRef(MODEL_SERVER, context.key.namespace, target.model_server_name), target.weight
            )
            for target in rule.target_models
        )
        for place, target in enumerate(targets):
            if target.pool not in pools:
                field = f"spec.rules[{index}].targetModels[{place}].modelServerName"
                context.report(field, MODEL_SERVER_NOT_FOUND, f"there is no {target.pool}")
        rules.append(Rule(rule.name or f"rules[{index}]", pattern, targets))
    return Route(
        key=api.ObjectRef(context.kind, *context.key),
        name=str(context.key),
        model=route.spec.model_name or None,
        adapters=tuple(name for name in route.spec.lora_adapters if name),
        rules=tuple(rules),
        limits=token_limits(route.spec.rate_limit),
        uid=route.metadata.uid,
        created=route.metadata.creation_timestamp,
    )


def _pattern(condition: api.ModelMatch | None) -> patterns.RequestPattern | None:
    if condition is None:
        return None
    pattern = patterns.RequestPattern(
        headers=tuple(
            (name.lower().encode(), patterns.compile_string(value))
            for name, value in condition.headers.items()
        ),
        path=patterns.compile_string(condition.uri) if condition.uri else None,
        model=condition.body.model if condition.body else None,
    )
    return pattern if pattern != patterns.RequestPattern() else None
