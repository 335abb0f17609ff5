"""Translates a ModelServer, with its Pods, into a pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headgate import api
from headgate.api import marks
from headgate.kubeschema import duration
from headgate.routing import endpoints, phases, starting, tls, weights
from headgate.routing.endpoints import Selector
from headgate.routing.problems import Reporter
from headgate.routing.snapshot import MODEL_SERVER, Endpoint, Pool

DEFAULT_PORT = 8000
"""The port if neither the ModelServer nor the Pod specifies one: vLLM's default."""

_SELECTOR = "spec.workloadSelector"


def ref(server: api.ModelServer) -> api.ObjectRef:
    return api.ObjectRef(MODEL_SERVER, *server.metadata.key)


def selector(server: api.ModelServer) -> Selector:
    return server.metadata.namespace, server.spec.workload_selector.match_labels


def pool(
    server: api.ModelServer,
    pods: list[api.Pod],
    secrets: Mapping[api.ObjectKey, api.Secret],
    reporter: Reporter,
) -> Pool:
    """Translate a ModelServer into a pool. `pods` are the ready Pods that it selects, by name. `secrets` are
    the existing ones for TLS verification."""
    spec, notes = server.spec, server.metadata.annotations
    policy = spec.traffic_policy
    retry = policy.retry if policy else None
    verified, fault = None, ""
    try:
        verified = tls.settings(server, secrets)
    except tls.TlsError as error:
        fault = str(error)
        reporter.report(f"metadata.annotations[{error.annotation}]", error.reason, fault)
    found = {} if fault else dict(_endpoints(server, pods, reporter))
    roles = phases.phases(server, found, reporter.report)
    taking_part = {e: pod for e, pod in found.items() if roles is None or e in roles.roles}
    return Pool(
        key=reporter.ref,
        endpoints=tuple(taking_part),
        labels={e: pod.metadata.labels for e, pod in taking_part.items()},
        metrics_pages=dict(endpoints.pages(taking_part, _SELECTOR, reporter.report)),
        kv_events=dict(endpoints.events(notes, taking_part, _SELECTOR, reporter.report)),
        weights=weights.of_endpoints(notes, taking_part, _SELECTOR, reporter.report) if roles is None else {},
        phases=roles,
        engine=spec.inference_engine,
        scheduling_profile=notes.get(marks.SCHEDULING_PROFILE, ""),
        model=spec.model or None,
        tls=verified,
        fault=fault,
        start=starting.start(notes, reporter.report),
        timeout_s=_seconds(policy.timeout if policy else None, "spec.trafficPolicy.timeout", reporter),
        attempts=max(retry.attempts, 0) if retry and retry.attempts is not None else None,
        retry_interval_s=_seconds(
            retry.retry_interval if retry else None, "spec.trafficPolicy.retry.retryInterval", reporter
        )
        or 0.0,  # without `retry` the next attempt follows at once, since it goes to another endpoint
    )


def _seconds(text: str | None, field: str, reporter: Reporter) -> float | None:
    if not text:
        return None
    try:
        seconds = duration.parse(text)
    except ValueError as error:
        reporter.report(field, "InvalidDuration", f"{text!r} is not a duration: {error}; it is ignored")
        return None
    return seconds if seconds > 0 else None


def _endpoints(
    server: api.ModelServer, pods: list[api.Pod], reporter: Reporter
) -> Iterator[tuple[Endpoint, api.Pod]]:
    """The endpoints of the selected Pods, each with its Pod."""
    for pod in pods:
        try:
            yield _endpoint(pod, server.spec.workload_port), pod
        except ValueError as error:
            endpoints.report_address(pod, error, _SELECTOR, reporter.report)


def _endpoint(pod: api.Pod, port: api.WorkloadPort | None) -> Endpoint:
    """The endpoint of a Pod. Its own annotations take precedence over the port of the ModelServer, and that
    over the Pod's first port.

    Raises ValueError if the Pod's address or prefix is invalid.
    """
    address = endpoints.address(pod)
    own = endpoints.own_port(pod, address)
    declared = [p.container_port for container in pod.spec.containers for p in container.ports]
    chosen = own or (port.port if port else None) or (declared[0] if declared else DEFAULT_PORT)
    return Endpoint(str(pod.metadata.key), address.host, chosen, endpoints.prefix(pod))
