"""What a proxy is told about one request: the picked endpoints, and the headers of request and response."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from headgate import extproc
from headgate.dataplane import decision_header
from headgate.dataplane.tracing import places
from headgate.picker import hints, replies
from headgate.requests import sessions
from headgate.requests.pairs import marks

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from headgate.dataplane.records.served_request import ServedRequest
    from headgate.dataplane.tracing.tracer import Tracer
    from headgate.fleet import EndpointState
    from headgate.picker.request import ProxiedRequest
    from headgate.picker.settings import Choices
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.decision import Decision
    from headgate.requests.destinations import Destination
    from headgate.requests.life import Life
    from headgate.requests.subset import Subset

PREFILLER: Final = b"x-prefiller-host-port"
"""Names the endpoint that prefills the prompt, for the sidecar of the one that decodes."""
_SERVED_ECHO: Final = b"x-conformance-test-served-endpoint"


def body_modes(protocol: extproc.Protocol | None, configured: str) -> tuple[int, int]:
    """How the proxy sends the bodies of request and response. `configured`: for proxies that do not say."""
    if protocol is not None:
        return protocol.request_body_mode, protocol.response_body_mode
    mode = extproc.BUFFERED if configured == "buffered" else extproc.FULL_DUPLEX_STREAMED
    return mode, mode


def any_of(
    plane: DataPlane,
    destination: Destination | None,
    subset: Subset | None,
    now: float,
    rng: random.Random,
) -> EndpointState | None:
    """Any endpoint that may serve a request; None if there is none."""
    if destination is None:
        return None
    pool = destination.pool
    excluded = subset.excluded(pool.loads) if subset is not None else []
    found = plane.candidates(pool, excluded, now)
    return rng.choice(found) if found else None


def fallbacks(life: Life, picked: EndpointState, count: int, now: float) -> Iterator[EndpointState]:
    """The endpoints that would be picked without those before them, up to `count`."""
    pool = life.pool
    assert pool is not None
    tried = [*life.tried, picked]
    for _ in range(count):
        choice = life.plane.pick(pool, life.decision.scheduled, tried, now)
        if choice is None:
            return
        tried.append(choice.load)
        yield choice.load


def metadata_with_scores(life: Life, addresses: bytes) -> bytes:
    """The metadata with the scores by which the endpoint was picked; without them if the policy has none."""
    scores = life.choice.scores if life.choice is not None else {}
    if not scores:
        return replies.destination_metadata(addresses)
    shown = {load.endpoint.address: round(score, 6) for load, score in scores.items() if math.isfinite(score)}
    return replies.metadata_with_scores(addresses, shown)


def mutation(
    request: ProxiedRequest, addresses: bytes, request_id: bytes, *, length: int | None
) -> extproc.Mutation:
    """The changes of the request's headers. `length`: of its body; None without one."""
    headers = [extproc.SetHeader(replies.DESTINATION, addresses)]
    if length is not None:
        headers.append(extproc.SetHeader(b"content-length", b"%d" % length))
    if not request.given_id:
        headers.append(extproc.SetHeader(b"x-request-id", request_id))
    if request.sent_traceparent:
        headers.append(extproc.SetHeader(b"traceparent", request.sent_traceparent))
    # Counts and names in a compressed response could not be read.
    removed = [b"accept-encoding"] if length is not None and request.has(b"accept-encoding") else []
    if request.is_in_new_trace and request.has(b"tracestate"):
        removed.append(b"tracestate")
    return extproc.Mutation(headers, removed)


def session_headers(request: ProxiedRequest, decision: Decision) -> list[extproc.SetHeader]:
    """The header that names the model of a WebSocket as its endpoint calls it."""
    if decision.upstream_model == decision.model:
        return []
    path, _, _ = request.target.partition(b"?")
    query = sessions.with_model(request.query, decision.upstream_model)
    return [extproc.SetHeader(b":path", b"%b?%b" % (path, query.encode("latin-1")))]


def name_parent(tracer: Tracer, request: ProxiedRequest, number: int) -> None:
    """Decide whether the request is sampled. If it is, the spans of the endpoint belong to this attempt."""
    if request.trace is None:
        tracer.begin(request)
    trace = request.trace
    if trace is not None and trace.is_sampled:
        request.send_trace(trace.traceparent(places.of_attempt(number)), is_new=not trace.parent_id)


def response_headers(
    served: ServedRequest, retry_after_s: float | None, *, explains: bool
) -> list[extproc.SetHeader]:
    """The headers added to a response. `explains`: with the decision."""
    life = served.life
    added = decision_headers(served) if explains else []
    if life.account.upstream_status >= 400:
        added += trace_headers(served)
    pool, choice = life.pool, life.choice
    if pool is not None and choice is not None and pool.policy.marks_responses:
        added += (extproc.SetHeader(name, value) for name, value in marks(life, pool, choice))
    if retry_after_s is not None:
        added.append(extproc.SetHeader(b"retry-after", b"%d" % max(round(retry_after_s), 1)))
    return added


def decision_headers(served: ServedRequest, refused: str = "") -> list[extproc.SetHeader]:
    """The header with the decision."""
    name, _, value = decision_header.line(served, [], refused).rstrip().partition(b": ")
    return [extproc.SetHeader(name, value)]


def trace_headers(served: ServedRequest) -> list[extproc.SetHeader]:
    """The header of an error that names its trace, if that is kept."""
    trace = served.request.trace
    if trace is None or not trace.is_kept:
        return []
    return [extproc.SetHeader(b"x-headgate-trace-id", trace.trace_id)]


def conformance_headers(found: extproc.ProcessingRequest, choices: Choices) -> list[extproc.SetHeader]:
    """The header that conformance tests read the served endpoint from."""
    if not choices.is_conformance:
        return []
    address = hints.served(found.metadata, found.attributes)
    return [extproc.SetHeader(_SERVED_ECHO, address.encode())] if address else []
