"""Translates an InferencePool of either version, with its Pods, into a pool and its routes.

Each port of each Pod is an endpoint. Annotations provide what a ModelServer has fields for and an
InferencePool does not: the engine, the policy, KV events, and the pool's models, where no InferenceModel
names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from headgate import api
from headgate.api import gie_v1, gie_v1alpha1, gie_v1alpha2, marks
from headgate.api.marks import Address
from headgate.routing import endpoints, fallbacks, kv_events, phases, starting, tls, weights
from headgate.routing.endpoints import Selector
from headgate.routing.problems import INVALID_ANNOTATION, Report, Reporter
from headgate.routing.snapshot import (
    INFERENCE_POOL,
    INFERENCE_POOL_V1ALPHA1,
    Endpoint,
    KvEvents,
    MetricsPage,
    Picker,
    Pool,
    Rewrites,
    Route,
    Rule,
    Target,
    name_of,
)

InferencePool = gie_v1.InferencePool | gie_v1alpha1.InferencePool

PoolReference = gie_v1alpha1.PoolObjectReference | gie_v1alpha2.PoolObjectReference

EVERY_NAME = "*"
_KIND_OF_GROUP = {gie_v1.GROUP: INFERENCE_POOL, gie_v1alpha1.GROUP: INFERENCE_POOL_V1ALPHA1}
_RULE = "models"
"""Name of the only rule of a route from an annotation."""


def ref(source: InferencePool) -> api.ObjectRef:
    return api.ObjectRef(_KIND_OF_GROUP[source.resource.group], *source.metadata.key)


def named(namespace: str, reference: PoolReference) -> api.ObjectRef:
    """The object that a `poolRef` references; one of another kind than InferencePool never exists."""
    kind = _KIND_OF_GROUP.get(reference.group) if reference.kind == "InferencePool" else None
    return api.ObjectRef(kind or f"{reference.kind}.{reference.group or 'core'}", namespace, reference.name)


def selector(source: InferencePool) -> Selector:
    spec = source.spec
    labels = spec.selector.match_labels if isinstance(spec, gie_v1.InferencePoolSpec) else spec.selector
    return source.metadata.namespace, labels


def ports(source: InferencePool) -> list[int]:
    """The ports of its endpoints, each once; the index of a port is its rank."""
    spec = source.spec
    if isinstance(spec, gie_v1.InferencePoolSpec):
        return list(dict.fromkeys(port.number for port in spec.target_ports))
    return [spec.target_port_number] if spec.target_port_number else []


def pool(
    source: InferencePool,
    pods: list[api.Pod],
    secrets: Mapping[api.ObjectKey, api.Secret],
    objectives: Mapping[str, int],
    rewrites: Rewrites | None,
    reporter: Reporter,
) -> Pool:
    """Translate an InferencePool into a pool. `pods` are the ready Pods that it selects, by name. `secrets`
    are the existing ones for TLS verification; `objectives` are the priorities of this pool's objectives, by
    name, and `rewrites` the other names of its models."""
    notes, report = source.metadata.annotations, reporter.report
    field = "spec.selector" if reporter.ref.kind == INFERENCE_POOL_V1ALPHA1 else "spec.selector.matchLabels"
    fault, verified = _fault(source, report), None
    try:
        verified = tls.settings(source, secrets)
    except tls.TlsError as error:
        fault = fault or str(error)
        report(f"metadata.annotations[{error.annotation}]", error.reason, str(error))
    ranks = {} if fault else dict(_ranks(ports(source), pods, field, report))
    found = {endpoint: pod for endpoint, (_, pod) in ranks.items()}
    engine = notes.get(marks.ENGINE) or "vLLM"
    roles = phases.phases_by_label(notes, engine, found, field, report)
    found = {endpoint: pod for endpoint, pod in found.items() if roles is None or endpoint in roles.roles}
    pages = dict(endpoints.pages(found, field, report))
    has_ranks = len(ports(source)) > 1
    # If a Pod has several engines, its arguments do not show which of them has which port.
    told = {marks.KV_EVENTS: kv_events.OFF, **notes} if has_ranks else notes
    events = dict(endpoints.events(told, found, field, report))
    if has_ranks:
        pages = {endpoint: own for endpoint, page in pages.items() if (own := _page_of_rank(page))}
        events = {endpoint: _events_of_rank(each, ranks[endpoint][0]) for endpoint, each in events.items()}
    return Pool(
        key=reporter.ref,
        endpoints=tuple(found),
        labels={endpoint: pod.metadata.labels for endpoint, pod in found.items()},
        metrics_pages=pages,
        kv_events=events,
        weights=weights.of_endpoints(notes, found, field, report) if roles is None else {},
        engine=engine,
        scheduling_profile=notes.get(marks.SCHEDULING_PROFILE, ""),
        model=notes.get(marks.SERVED_MODEL) or None,
        phases=roles,
        tls=verified,
        http2=_speaks_http2(source),
        objectives=objectives,
        rewrites=rewrites,
        fault=fault,
        start=starting.start(notes, report),
        picker=_picker(source),
        fallback=fallbacks.fallback(notes, reporter.ref.kind, reporter.ref.namespace, report),
    )


def _picker(source: InferencePool) -> Picker | None:
    reference = source.spec.endpoint_picker_ref if isinstance(source.spec, gie_v1.InferencePoolSpec) else None
    if reference is None:
        return None
    fault, port = "", reference.port.number if reference.port is not None else 0
    if (reference.group, reference.kind) != ("", "Service"):
        fault = f"a picker of kind {reference.kind} and group {reference.group!r} is not supported"
    elif not port:
        fault = "its reference has no port"
    return Picker(reference.name, port, reference.failure_mode == "FailOpen", fault)


def routes(source: InferencePool) -> list[Route]:
    """One route for each name in `headgate.dev/models`; they come after those of InferenceModels."""
    key = ref(source)
    rule = Rule(_RULE, None, (Target(key, 1),))
    return [
        Route(
            key=key,
            name=name_of(key),
            model=None if name == EVERY_NAME else name,
            takes_unknown=name == EVERY_NAME,
            adapters=(),
            rules=(rule,),
            uid=source.metadata.uid,
            created=source.metadata.creation_timestamp,
        )
        for name in models(source)
    ]


def models(source: InferencePool) -> list[str]:
    """The names in `headgate.dev/models`, each once."""
    texts = source.metadata.annotations.get(marks.MODELS, "").split(",")
    return list(dict.fromkeys(text.strip() for text in texts if text.strip()))


def _fault(source: InferencePool, report: Report) -> str:
    """Why it cannot have endpoints; "" if it can."""
    if not ports(source):
        told = "0 is not a port: set the port that its engines listen on"
        report("spec.targetPortNumber", "InvalidPort", told)
        return f"spec.targetPortNumber: {told}"
    return ""


def _speaks_http2(source: InferencePool) -> bool:
    """Whether its endpoints speak HTTP/2: without TLS, or inside TLS if they use https."""
    spec = source.spec
    return isinstance(spec, gie_v1.InferencePoolSpec) and spec.app_protocol == "kubernetes.io/h2c"


def _ranks(
    numbers: list[int], pods: list[api.Pod], field: str, report: Report
) -> Iterator[tuple[Endpoint, tuple[int, api.Pod]]]:
    """Each endpoint with its rank and Pod."""
    for pod in pods:
        try:
            address, prefix = endpoints.address(pod), endpoints.prefix(pod)
        except ValueError as error:
            endpoints.report_address(pod, error, field, report)
            continue
        active, at = _active(pod, numbers, field, report), _reached(pod, address, numbers, field, report)
        for rank, number in enumerate(numbers):
            if number in active:
                name = str(pod.metadata.key) + (f"-rank-{rank}" if len(numbers) > 1 else "")
                yield Endpoint(name, address.host, at[rank], prefix), (rank, pod)


def _active(pod: api.Pod, numbers: list[int], field: str, report: Report) -> set[int]:
    """The ports of the pool that the Pod serves."""
    annotation = next((name for name in marks.ACTIVE_PORTS if name in pod.metadata.annotations), None)
    if annotation is None:
        return set(numbers)
    texts = [text.strip() for text in pod.metadata.annotations[annotation].split(",")]
    if wrong := [text for text in texts if endpoints.port_number(text) not in numbers]:
        there = ", ".join(map(str, numbers))
        told = f"{', '.join(wrong)[:64]!r} is none of the pool's ports ({there}) and counts for nothing"
        report(field, INVALID_ANNOTATION, endpoints.of_pod(pod, annotation, told))
    return {number for text in texts if (number := endpoints.port_number(text)) is not None}


def _reached(pod: api.Pod, address: Address, numbers: list[int], field: str, report: Report) -> list[int]:
    """Where each of the pool's ports is reached: at that port, unless the Pod's annotations name another."""
    if len(numbers) == 1:
        return [endpoints.own_port(pod, address) or numbers[0]]
    given = str(address.port) if address.port else pod.metadata.annotations.get(marks.PORT)
    if given is None:
        return numbers
    own = [port for text in given.split(",") if (port := endpoints.port_number(text.strip())) is not None]
    if len(own) == len(numbers):
        return own
    annotation = marks.ADDRESS if address.port else marks.PORT
    told = f"{given[:64]!r} is not a port for each of the pool's {len(numbers)}, whose own numbers are used"
    report(field, INVALID_ANNOTATION, endpoints.of_pod(pod, annotation, told))
    return numbers


def _page_of_rank(page: MetricsPage) -> MetricsPage | None:
    """The metrics page without its port, which belongs to one rank only: each rank has a page of its own."""
    own = msgspec.structs.replace(page, port=None)
    return None if own == MetricsPage() else own


def _events_of_rank(events: KvEvents, rank: int) -> KvEvents:
    """Where a rank publishes: ranks use consecutive ports, starting with the configured ones."""
    ahead = rank * events.ranks
    replay_port = events.replay_port + ahead if events.replay_port is not None else None
    return msgspec.structs.replace(events, port=events.port + ahead, replay_port=replay_port)
