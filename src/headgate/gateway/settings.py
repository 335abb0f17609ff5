"""What a gateway is told: the one list of its settings, from which its file, its flags and their table come.

Times are in seconds and sizes in bytes. A setting is `Annotated` with what `_says` makes: bounds, what it is
for, and whether a running gateway takes a new value up.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec

from headgate import routing
from headgate.flow.capacity.predicted import TARGET_S
from headgate.flow.queue.settings import FairnessName, OrderingName
from headgate.gateway import cors, hosts, trust

DAY_S = 86_400.0


def _says(
    description: str, *, live: bool = True, ge: float | None = None, le: float | None = None
) -> msgspec.Meta:
    """`live` settings change while serving; the others at the next start or upgrade."""
    return msgspec.Meta(description=description, extra={"live": live}, ge=ge, le=le)


def _derived(description: str) -> msgspec.Meta:
    """What follows from other settings, and is no setting itself."""
    return msgspec.Meta(description=description, extra={"derived": True})


def _port(of: str) -> msgspec.Meta:
    return _says(f"Port of {of}; 0 lets the system choose.", live=False, ge=0, le=65_535)


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Addresses, limits and times of a gateway, for each of its workers."""

    host: Annotated[str, _says("Address that clients connect to.", live=False)] = "127.0.0.1"
    port: Annotated[int, _port("the inference API")] = 8080
    metrics_host: Annotated[str, _says("Address of the metrics page.", live=False)] = "127.0.0.1"
    metrics_port: Annotated[int, _port("the metrics page")] = 9090
    admin_host: Annotated[str, _says("Address of the health and debug pages.", live=False)] = "127.0.0.1"
    admin_port: Annotated[int, _port("the health and debug pages")] = 8081
    workers: Annotated[
        int, _says("Worker processes, each with its share of the connections.", live=False, ge=1, le=256)
    ] = 1

    worker_hang_s: Annotated[
        float,
        _says("A worker that does nothing for this long is killed and replaced; 0 is never.", ge=0, le=DAY_S),
    ] = 60.0

    kubeconfig: Annotated[
        str | None,
        _says(
            "File that names the API server; without it the in-cluster account, $KUBECONFIG, ~/.kube/config.",
            live=False,
        ),
    ] = None
    namespace: Annotated[
        str | None, _says("Objects of this namespace only; without it those of all.", live=False)
    ] = None

    max_head_bytes: Annotated[int, _says("Longest request head.", ge=1024, le=1 << 20)] = 32 * 1024
    max_headers: Annotated[int, _says("Most headers of a request.", ge=1, le=10_000)] = 100
    max_body_bytes: Annotated[int, _says("Longest request body.", ge=1024, le=1 << 30)] = 32 * 1024 * 1024
    max_pipelined: Annotated[
        int, _says("Requests that a client may send ahead on one connection.", ge=1, le=1000)
    ] = 16
    max_clients: Annotated[
        int,
        _says(
            "Client connections of a worker at a time; fewer if it may not open so many files.",
            ge=1,
            le=1_000_000,
        ),
    ] = 10_000
    max_clients_per_address: Annotated[
        int,
        _says(
            "Those of one client address (IPv6: one /64 network); 0 is no limit, since behind a load "
            "balancer all clients have one address.",
            ge=0,
            le=1_000_000,
        ),
    ] = 0
    head_timeout_s: Annotated[
        float,
        _says(
            "How long a client may take for a request, from its first byte to its last; longer for a long "
            "body.",
            ge=0.1,
            le=DAY_S,
        ),
    ] = 30.0
    min_body_bytes_per_s: Annotated[
        int,
        _says(
            "For each of so many bytes of body that came, a request may take a second longer.",
            ge=1,
            le=1 << 30,
        ),
    ] = 16 * 1024
    keep_alive_s: Annotated[
        float, _says("How long an idle client connection stays open.", ge=0.1, le=DAY_S)
    ] = 75.0
    trusted_clients: Annotated[
        tuple[str, ...],
        _says(
            "Networks of load balancers, whose word on the clients behind them is believed, and of "
            "operators: from others, x-headgate-* and x-gateway-* are dropped, and x-forwarded-* replaced."
        ),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...],
        _says("Names that the gateway goes by, such as api.example.com or *.example.com; none means any."),
    ] = ()
    cors_origins: Annotated[
        tuple[str, ...],
        _says('Origins such as https://app.example.com whose web pages may send requests, or "*" for all.'),
    ] = ()
    cors_methods: Annotated[tuple[str, ...], _says("Methods that those pages may use.")] = ("GET", "POST")
    cors_headers: Annotated[
        tuple[str, ...], _says("Request headers that they may set; none means all that they ask for.")
    ] = ()
    cors_max_age_s: Annotated[
        int, _says("How long their browsers may remember that.", ge=0, le=int(DAY_S))
    ] = 600
    cors_credentials: Annotated[
        bool, _says("Whether they may send cookies and the like; not with the origin *.")
    ] = False
    write_buffer_bytes: Annotated[
        int,
        _says("Past this much unread by a client, its endpoint is not read either.", ge=1024, le=1 << 26),
    ] = 64 * 1024

    connect_timeout_s: Annotated[
        float,
        _says(
            "How long a connection to an endpoint may take, TLS included; a packet lost and sent again fits.",
            ge=0.01,
            le=600,
        ),
    ] = 3.0
    response_timeout_s: Annotated[
        float,
        _says(
            "Until the head of an answer that is no stream, which engines send when all of it is generated; "
            "where a pool has no timeout.",
            ge=1,
            le=DAY_S,
        ),
    ] = 600.0
    stream_response_timeout_s: Annotated[
        float,
        _says(
            "Until the head of a stream, which comes with the first token at the latest; where a pool has no "
            "timeout.",
            ge=1,
            le=DAY_S,
        ),
    ] = 300.0
    stream_idle_timeout_s: Annotated[
        float,
        _says("An endpoint that sends nothing for this long amid an answer has failed.", ge=0.1, le=DAY_S),
    ] = 600.0
    hang_s: Annotated[
        float,
        _says(
            "Three requests that wait for longer eject an endpoint of which nothing is heard, while others "
            "answer.",
            ge=1,
            le=DAY_S,
        ),
    ] = 30.0
    max_response_head_bytes: Annotated[
        int, _says("Longest head of an endpoint's answer.", ge=1024, le=1 << 20)
    ] = 64 * 1024
    max_endpoint_connections: Annotated[
        int,
        _says(
            "Connections to one endpoint, and so requests that it has from one worker, at a time.",
            ge=1,
            le=65_000,
        ),
    ] = 1024
    idle_connections: Annotated[int, _says("Idle connections kept for each endpoint.", ge=0, le=65_000)] = 256
    idle_connection_s: Annotated[
        int,
        _says(
            "How long those are kept: less than the 5 s after which uvicorn, and so vLLM, hangs up.",
            ge=1,
            le=3600,
        ),
    ] = 4
    ejection_failures: Annotated[
        int,
        _says(
            "Failures in a row by which an endpoint is left out of its pools for a while; 0 is never.",
            ge=0,
            le=1_000_000,
        ),
    ] = 5
    engine_metrics: Annotated[
        bool, _says("Whether the metrics pages of engines, and their lists of models, are read.")
    ] = True
    engine_metrics_interval_s: Annotated[
        float,
        _says("Between two looks of a worker at an engine where nothing presses.", ge=0.05, le=3600),
    ] = 1.0
    engine_metrics_quick_s: Annotated[
        float,
        _says("Between two of them where requests wait, or soon may.", ge=0.01, le=3600),
    ] = 0.1
    engine_metrics_per_s: Annotated[
        int,
        _says(
            "Pages that all workers read in a second at most; with more engines, each is looked at less "
            "often.",
            ge=1,
            le=100_000,
        ),
    ] = 100
    engine_metrics_stale_s: Annotated[
        float,
        _says(
            "What an engine said longer ago than this, and than two looks take, is not relied on.",
            ge=0.1,
            le=3600,
        ),
    ] = 5.0
    engine_metrics_timeout_s: Annotated[
        float, _says("How long an engine may take for a page.", ge=0.05, le=600)
    ] = 5.0
    engine_metrics_path: Annotated[
        str, _says("Where the page is, unless a Pod says it: prometheus.io/path.")
    ] = "/metrics"
    engine_metrics_port: Annotated[
        int,
        _says(
            "Its port, unless a Pod says it: prometheus.io/port; 0 is the port that serves.", ge=0, le=65_535
        ),
    ] = 0
    retries: Annotated[int, _says("Retries on other endpoints where a pool does not say.", ge=0, le=100)] = 2

    flow_control: Annotated[
        bool,
        _says(
            "Whether requests wait for their turn where their pool has no room for them; without it only "
            "those of a priority below 0 are refused then."
        ),
    ] = True
    no_endpoint_wait_s: Annotated[
        float,
        _says(
            "How long requests wait for a pool without ready endpoints to get one, as one that is scaled "
            "from zero; 0 refuses them at once.",
            ge=0,
            le=DAY_S,
        ),
    ] = 30.0
    queue_ttl_s: Annotated[
        float,
        _says(
            "How long requests wait for their turn at most; 0 is as long as their client does.",
            ge=0,
            le=DAY_S,
        ),
    ] = 60.0
    queue_detector: Annotated[
        Literal["predicted-work", "utilization-detector", "concurrency-detector"],
        _says("What tells whether a pool has room."),
    ] = "predicted-work"
    queue_target_s: Annotated[
        float,
        _says(
            "By predicted work, a pool has room while one of its endpoints is expected to take a request up "
            "within this time: so much waits in engines, and the rest here, where its order can change.",
            ge=0.01,
            le=3600,
        ),
    ] = TARGET_S
    queue_max_in_flight: Annotated[
        int,
        _says(
            "By the concurrency detector, a pool has room for so many requests on each endpoint.",
            ge=1,
            le=1_000_000,
        ),
    ] = 100
    queue_max_requests: Annotated[
        int,
        _says("Requests that wait for one pool, in all workers; 0 is no limit.", ge=0, le=10_000_000),
    ] = 5000
    queue_max_bytes: Annotated[int, _says("Bytes of their bodies; 0 is no limit.", ge=0, le=1 << 40)] = (
        1_000_000_000
    )
    queue_band_max_requests: Annotated[
        int, _says("Those of one priority; 0 is no limit.", ge=0, le=10_000_000)
    ] = 5000
    queue_band_max_bytes: Annotated[
        int, _says("Bytes of the bodies of one priority; 0 is no limit.", ge=0, le=1 << 40)
    ] = 1_000_000_000
    queue_fairness: Annotated[FairnessName, _says("Which flow of a priority is next.")] = (
        "deficit-round-robin"
    )
    queue_order: Annotated[OrderingName, _says("Which request of a flow is next.")] = "fcfs-ordering-policy"
    queue_weights: Annotated[
        tuple[str, ...],
        _says("Shares of flows in the work, relative to the others', which have 1: team-a=2."),
    ] = ()
    queue_floor_share: Annotated[
        float,
        _says(
            "Share of the work that each priority gets at least while requests of it wait, from 0 to 0.5; "
            "with 0, lower ones wait for as long as higher ones come.",
            ge=0,
            le=0.5,
        ),
    ] = 0.0
    queue_promote_after_s: Annotated[
        float,
        _says(
            "A request that has waited so long goes before all others, whatever its priority; 0 is never.",
            ge=0,
            le=DAY_S,
        ),
    ] = 0.0
    queue_evicts: Annotated[
        bool,
        _says(
            "Whether running requests of a priority below 0 that have no answer yet are ended for others "
            "that wait."
        ),
    ] = False
    objectives: Annotated[
        Literal["anyone", "trusted"],
        _says(
            "Who may name an InferenceObjective, which decides the priority of a request: all clients, or "
            "trusted ones only."
        ),
    ] = "anyone"
    fairness_ids: Annotated[
        Literal["anyone", "trusted"],
        _says(
            "Whose x-gateway-inference-fairness-id, and the like, say which flow a request belongs to: those "
            "of all clients, or of trusted ones only."
        ),
    ] = "anyone"
    tenant_header: Annotated[
        str,
        _says(
            "Header by which a trusted client tells the tenant of a request, which is its flow if it has no "
            "fairness id; empty is none."
        ),
    ] = ""

    remote_prefill_tokens: Annotated[
        int,
        _says(
            "Where a ModelServer tells prefill and decode Pods apart, prompts with fewer uncached tokens are "
            "prefilled where they are decoded; with 0, every prompt is prefilled apart.",
            ge=0,
            le=10_000_000,
        ),
    ] = 512

    rate_limit_strict: Annotated[
        bool,
        _says(
            "Whether requests are refused while the Redis that counts their limit is away; else each gateway "
            "goes by its share of what was left."
        ),
    ] = False
    rate_limit_wait_s: Annotated[
        float,
        _says("How long a request may wait for that Redis at most.", ge=0.005, le=10),
    ] = 0.05
    rate_limit_gateways: Annotated[
        int,
        _says(
            "By how many gateway processes a limit is divided at least while its Redis was never reached, so "
            "that it has not said how many there are.",
            live=False,
            ge=1,
            le=10_000,
        ),
    ] = 1
    redis_hosts: Annotated[
        tuple[str, ...],
        _says(
            "Hosts of Redis servers that routes may name, and that are told $REDIS_PASSWORD; none means any.",
            live=False,
        ),
    ] = ()
    redis_tls: Annotated[bool, _says("Whether those are spoken to over TLS.", live=False)] = False
    redis_ca_file: Annotated[
        str | None,
        _says("File of the authorities that sign their certificates; without it, the system's.", live=False),
    ] = None

    lameduck_s: Annotated[
        float,
        _says(
            "After the signal to stop, how long new connections are still served while readiness says no.",
            ge=0,
            le=3600,
        ),
    ] = 0.0
    drain_s: Annotated[
        float, _says("After that, how long running requests may take to end.", ge=0, le=DAY_S)
    ] = 30.0
    retire_s: Annotated[
        float,
        _says("How long requests may run on in a worker that an upgrade replaced.", ge=0, le=DAY_S),
    ] = 600.0

    scheduler: Annotated[
        Literal["predicted", "least-work", "least-request", "round-robin", "random"],
        _says("How endpoints of a pool are picked, where no configuration file says it."),
    ] = "predicted"
    scheduler_config: Annotated[
        str | None,
        _says(
            "File that says how endpoints are picked: an EndpointPickerConfig, or Kthena's scheduler "
            "configuration."
        ),
    ] = None
    allow_experimental_plugins: Annotated[
        bool, _says("Whether that file may have plugins that are experimental where they come from.")
    ] = False
    scheduling: Annotated[dict[str, Any] | None, _derived("What that file says.")] = None
    kthena_environment: Annotated[
        dict[str, str], _derived("What the environment says in the names of Kthena's queues.")
    ] = {}

    access_log: Annotated[
        Literal["text", "json", "off"],
        _says("Form of the line that is written to standard output for each request."),
    ] = "text"
    begin_traces: Annotated[
        float,
        _says(
            "Share of the requests without a trace for which one is begun, from 0 to 1: they are sent with "
            "a new traceparent that says to record them.",
            ge=0,
            le=1,
        ),
    ] = 0.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], _says("What is logged on standard error.")
    ] = "info"


def conflicts(settings: GatewaySettings) -> list[tuple[str, str]]:
    """What is wrong with settings that are valid each for itself: name of the setting, and why."""
    found = []
    taken = {(settings.host, settings.port): "port"}
    for name in ("metrics_port", "admin_port"):
        host, port = getattr(settings, name.replace("port", "host")), getattr(settings, name)
        other = taken.setdefault((host, port), name)
        if other != name and port:
            found.append((name, f"{port} is {other} already: choose another"))
    origins = cors.problems(settings.cors_origins, credentials=settings.cors_credentials)
    found += [
        *(("engine_metrics_path", problem) for problem in _path_problems(settings.engine_metrics_path)),
        *(("trusted_clients", problem) for problem in trust.problems(settings.trusted_clients)),
        *(("allowed_hosts", problem) for problem in hosts.problems(settings.allowed_hosts)),
        *(("cors_origins", problem) for problem in origins),
        *(("queue_weights", problem) for problem in _weight_problems(settings.queue_weights)),
        *(("cors_methods", problem) for problem in cors.not_names(settings.cors_methods)),
        *(("cors_headers", problem) for problem in cors.not_names(settings.cors_headers)),
    ]
    return found


def weight(text: str) -> tuple[str, float]:
    """A flow and its weight, from "team-a=2". Raises ValueError."""
    flow, _, number = text.rpartition("=")
    return flow.strip(), float(number)


def _weight_problems(weights: tuple[str, ...]) -> list[str]:
    found = []
    for text in weights:
        try:
            flow, number = weight(text)
        except ValueError:
            flow, number = "", 0.0
        if not flow or not 0 < number < math.inf:
            found.append(f"{text[:64]!r}: a flow and its weight above 0 are needed, as in team-a=2")
    return found


def _path_problems(path: str) -> list[str]:
    if routing.is_page_path(path):
        return []
    return [f"{path[:64]!r} is no path: it begins with / and has no blanks"]


def changes(old: GatewaySettings, new: GatewaySettings) -> dict[str, tuple[Any, Any]]:
    """The settings that differ, as they were and as they are to be."""
    pairs = {name: (getattr(old, name), getattr(new, name)) for name in GatewaySettings.__struct_fields__}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


class InvalidSettings(Exception):  # noqa: N818 - reads as what it says
    """Settings that cannot be used; `errors` has one line for each of them."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors
