"""The settings of a gateway: one nested structure, which its file, flags, environment and docs follow.

Times are in seconds and sizes in bytes. Each setting is `Annotated` with `_setting(...)`: what it is for, its
bounds, and whether a running gateway applies a new value. A section's docstring describes it in the
documentation.

A setting has a path (`clients.max_body_bytes`) and a key, with "_" for the "." (`clients_max_body_bytes`).
Flags (`--clients-max-body-bytes`) and environment variables (`HEADGATE_CLIENTS_MAX_BODY_BYTES`) are spelled
after the key, so no two settings may have the same one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec

from headgate import routing
from headgate.flow.capacity.predicted import TARGET_S
from headgate.flow.queue.settings import FairnessName, OrderingName
from headgate.gateway import bodies, cors, hosts, trust
from headgate.requests import paths as forwarded_paths

DAY_S = 86_400.0


def _setting(
    description: str,
    *,
    live: bool = True,
    ge: float | None = None,
    le: float | None = None,
    flag: str = "",
) -> msgspec.Meta:
    """`live` settings change while serving; the others at the next start or upgrade. `flag` is a shorter name
    for the flag."""
    return msgspec.Meta(description=description, extra={"live": live, "flag": flag}, ge=ge, le=le)


def _derived(description: str) -> msgspec.Meta:
    """A field that is computed from other settings and cannot be set."""
    return msgspec.Meta(description=description, extra={"derived": True})


def _port(of: str, *, flag: str = "") -> msgspec.Meta:
    return _setting(f"Port of {of}; 0 picks a free one.", live=False, ge=0, le=65_535, flag=flag)


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that belong together."""


class Listen(Section, frozen=True):
    """The inference API, which clients connect to."""

    host: Annotated[str, _setting("Address of the inference API.", live=False, flag="--host")] = "127.0.0.1"
    port: Annotated[int, _port("the inference API", flag="--port")] = 8080


class Metrics(Section, frozen=True):
    """The metrics page."""

    host: Annotated[str, _setting("Address of the metrics page.", live=False)] = "127.0.0.1"
    port: Annotated[int, _port("the metrics page")] = 9090


class Admin(Section, frozen=True):
    """The health and debug pages. They have no authentication."""

    host: Annotated[str, _setting("Address of the health and debug pages.", live=False)] = "127.0.0.1"
    port: Annotated[int, _port("the health and debug pages")] = 8081


class Workers(Section, frozen=True):
    """Worker processes, which share the connections."""

    count: Annotated[
        int, _setting("Number of worker processes.", live=False, ge=1, le=256, flag="--workers")
    ] = 1
    hang_s: Annotated[
        float,
        _setting(
            "A worker whose event loop is stuck for this long is killed and replaced; 0 means never.",
            ge=0,
            le=DAY_S,
        ),
    ] = 60.0


class Kubernetes(Section, frozen=True):
    """The API server that routes, pools and endpoints are read from."""

    kubeconfig: Annotated[
        str | None,
        _setting(
            "Kubeconfig of the API server. Without it: the in-cluster account, then $KUBECONFIG, then "
            "~/.kube/config.",
            live=False,
            flag="--kubeconfig",
        ),
    ] = None
    namespace: Annotated[
        str | None,
        _setting(
            "Read the objects of this namespace only; without it, of all.", live=False, flag="--namespace"
        ),
    ] = None


class Clients(Section, frozen=True):
    """Client connections: limits, timeouts and trust."""

    max_head_bytes: Annotated[
        int, _setting("Longest request head: request line and headers.", ge=1024, le=1 << 20)
    ] = 32 * 1024
    max_headers: Annotated[int, _setting("Most headers in a request.", ge=1, le=10_000)] = 100
    max_body_bytes: Annotated[int, _setting("Longest request body.", ge=1024, le=1 << 30)] = 32 * 1024 * 1024
    max_bodies_bytes: Annotated[
        int,
        _setting(
            "All request bodies that a worker holds, together; an eighth is reserved for bodies of up to "
            "64 KiB.",
            ge=4096,
            le=1 << 40,
        ),
    ] = 512 * 1024 * 1024
    max_pipelined: Annotated[
        int, _setting("Requests that a client may pipeline on one connection.", ge=1, le=1000)
    ] = 16
    max_connections: Annotated[
        int,
        _setting(
            "Client connections of each worker; lower if the process may not open that many files.",
            ge=1,
            le=1_000_000,
        ),
    ] = 10_000
    max_connections_per_address: Annotated[
        int,
        _setting(
            "Client connections of each worker from one address (IPv6: one /64 network); 0 is no limit, "
            "because all clients behind a load balancer share one address.",
            ge=0,
            le=1_000_000,
        ),
    ] = 0
    receive_timeout_s: Annotated[
        float,
        _setting(
            "Time for a client to send a request, from its first byte to its last; min_body_bytes_per_s "
            "extends it for long bodies.",
            ge=0.1,
            le=DAY_S,
        ),
    ] = 30.0
    min_body_bytes_per_s: Annotated[
        int,
        _setting(
            "Slowest upload allowed: receive_timeout_s grows by one second for each this many bytes of body "
            "received.",
            ge=1,
            le=1 << 30,
        ),
    ] = 16 * 1024
    keep_alive_s: Annotated[
        float, _setting("How long an idle client connection stays open.", ge=0.1, le=DAY_S)
    ] = 75.0
    trusted_networks: Annotated[
        tuple[str, ...],
        _setting(
            "Networks of load balancers and operators. Only from these are x-forwarded-*, x-headgate-* and "
            "x-gateway-* headers accepted; from others, x-forwarded-* is replaced and the rest is dropped."
        ),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...],
        _setting(
            "Host names that requests may use, such as api.example.com or *.example.com; empty allows any."
        ),
    ] = ()
    forwarded_paths: Annotated[
        tuple[str, ...],
        _setting(
            "Paths that are forwarded to endpoints besides those of inference: /v1/decisions, or with * all "
            "below one, /team-a/*."
        ),
    ] = ()
    write_buffer_bytes: Annotated[
        int,
        _setting(
            "Unsent response bytes per client above which the gateway stops reading from the endpoint.",
            ge=1024,
            le=1 << 26,
        ),
    ] = 64 * 1024


class Cors(Section, frozen=True):
    """Requests from web pages of other origins (CORS)."""

    origins: Annotated[
        tuple[str, ...],
        _setting('Origins such as https://app.example.com whose pages may send requests, or "*" for all.'),
    ] = ()
    methods: Annotated[tuple[str, ...], _setting("Methods that those pages may use.")] = ("GET", "POST")
    headers: Annotated[
        tuple[str, ...], _setting("Request headers that those pages may set; empty allows any.")
    ] = ()
    max_age_s: Annotated[
        int, _setting("How long browsers may cache the response to a preflight request.", ge=0, le=int(DAY_S))
    ] = 600
    credentials: Annotated[
        bool, _setting("Whether those pages may send cookies and other credentials; not with the origin *.")
    ] = False


class Endpoints(Section, frozen=True):
    """Connections to endpoints: timeouts, limits, retries and ejection."""

    connect_timeout_s: Annotated[
        float,
        _setting(
            "Time to connect to an endpoint, TLS included; the default allows for one lost packet.",
            ge=0.01,
            le=600,
        ),
    ] = 3.0
    response_timeout_s: Annotated[
        float,
        _setting(
            "Time until the head of a response that is not streamed, which engines send when all of it is "
            "generated; for pools without a timeout of their own.",
            ge=1,
            le=DAY_S,
        ),
    ] = 600.0
    stream_response_timeout_s: Annotated[
        float,
        _setting(
            "Time until the head of a streamed response, which comes with the first token at the latest; for "
            "pools without a timeout of their own.",
            ge=1,
            le=DAY_S,
        ),
    ] = 300.0
    stream_idle_timeout_s: Annotated[
        float,
        _setting("An endpoint that pauses for this long within a response has failed.", ge=0.1, le=DAY_S),
    ] = 600.0
    hang_s: Annotated[
        float,
        _setting(
            "An endpoint is ejected when three requests have waited for it this long without a byte, while "
            "other endpoints respond.",
            ge=1,
            le=DAY_S,
        ),
    ] = 30.0
    max_response_head_bytes: Annotated[
        int, _setting("Longest response head from an endpoint.", ge=1024, le=1 << 20)
    ] = 64 * 1024
    max_connections: Annotated[
        int,
        _setting(
            "Connections of each worker to one endpoint, and so requests in flight there.", ge=1, le=65_000
        ),
    ] = 1024
    max_idle_connections: Annotated[
        int, _setting("Idle connections that each worker keeps open to one endpoint.", ge=0, le=65_000)
    ] = 256
    keep_alive_s: Annotated[
        int,
        _setting(
            "How long an idle connection to an endpoint is kept: less than the 5 s after which uvicorn, and "
            "so vLLM, closes it.",
            ge=1,
            le=3600,
        ),
    ] = 4
    ejection_failures: Annotated[
        int,
        _setting(
            "Failures in a row after which an endpoint gets no requests for a while; 0 means that none is "
            "ejected, for whatever reason.",
            ge=0,
            le=1_000_000,
        ),
    ] = 5
    max_ejection_percent: Annotated[
        int,
        _setting(
            "How much of a pool may be ejected at a time, in percent; one endpoint always stays.",
            ge=0,
            le=100,
        ),
    ] = 50
    retries: Annotated[
        int,
        _setting("Retries on other endpoints, for pools without a number of their own.", ge=0, le=100),
    ] = 2


class EngineMetrics(Section, frozen=True):
    """Reading the metrics pages and model lists of engines."""

    enabled: Annotated[bool, _setting("Whether they are read.")] = True
    interval_s: Annotated[
        float, _setting("Interval between two reads of an engine while it is quiet.", ge=0.05, le=3600)
    ] = 1.0
    busy_interval_s: Annotated[
        float, _setting("Interval while requests are queued, or may be soon.", ge=0.01, le=3600)
    ] = 0.1
    max_per_s: Annotated[
        int,
        _setting(
            "Most reads per second, all workers together; with more engines, each is read less often.",
            ge=1,
            le=100_000,
        ),
    ] = 100
    stale_s: Annotated[
        float,
        _setting(
            "Readings older than this, and than two intervals, are ignored.",
            ge=0.1,
            le=3600,
        ),
    ] = 5.0
    timeout_s: Annotated[float, _setting("Time for an engine to send its page.", ge=0.05, le=600)] = 5.0
    path: Annotated[str, _setting("Path of the metrics page, unless the Pod sets prometheus.io/path.")] = (
        "/metrics"
    )
    port: Annotated[
        int,
        _setting(
            "Port of the metrics page, unless the Pod sets prometheus.io/port; 0 is the port that serves "
            "requests.",
            ge=0,
            le=65_535,
        ),
    ] = 0


class Queue(Section, frozen=True):
    """Flow control: which requests wait, for how long, and in which order."""

    enabled: Annotated[
        bool,
        _setting(
            "Whether requests are queued while their pool has no capacity. If not, only requests with a "
            "priority below 0 are rejected then."
        ),
    ] = True
    no_endpoint_wait_s: Annotated[
        float,
        _setting(
            "How long requests wait for a pool without ready endpoints, such as one that scales from zero; "
            "0 rejects them immediately.",
            ge=0,
            le=DAY_S,
        ),
    ] = 30.0
    ttl_s: Annotated[
        float,
        _setting(
            "Longest time in the queue; 0 means for as long as the client stays connected.", ge=0, le=DAY_S
        ),
    ] = 60.0
    detector: Annotated[
        Literal["predicted-work", "utilization-detector", "concurrency-detector"],
        _setting("How the gateway decides whether a pool has capacity."),
    ] = "predicted-work"
    target_s: Annotated[
        float,
        _setting(
            "For predicted-work: a pool has capacity while one of its endpoints is expected to start a new "
            "request within this time, or longer where short prompts fill its steps slowly. The rest waits "
            "in the gateway, where its order can still change.",
            ge=0.01,
            le=3600,
        ),
    ] = TARGET_S
    max_in_flight: Annotated[
        int,
        _setting(
            "For concurrency-detector: requests in flight on each endpoint while its pool has capacity.",
            ge=1,
            le=1_000_000,
        ),
    ] = 100
    max_requests: Annotated[
        int,
        _setting(
            "Most queued requests of one pool, all workers together; 0 is no limit.", ge=0, le=10_000_000
        ),
    ] = 5000
    max_bytes: Annotated[int, _setting("Most bytes of their bodies; 0 is no limit.", ge=0, le=1 << 40)] = (
        1_000_000_000
    )
    band_max_requests: Annotated[
        int,
        _setting("Most queued requests of one priority of a pool; 0 is no limit.", ge=0, le=10_000_000),
    ] = 5000
    band_max_bytes: Annotated[
        int, _setting("Most bytes of their bodies; 0 is no limit.", ge=0, le=1 << 40)
    ] = 1_000_000_000
    fairness: Annotated[FairnessName, _setting("How the next flow (tenant) of a priority is chosen.")] = (
        "deficit-round-robin"
    )
    order: Annotated[OrderingName, _setting("How the next request of a flow is chosen.")] = (
        "fcfs-ordering-policy"
    )
    weights: Annotated[
        tuple[str, ...],
        _setting("Relative shares of flows, such as team-a=2; flows not listed have 1."),
    ] = ()
    floor_share: Annotated[
        float,
        _setting(
            "Least share of the work for each priority with queued requests, from 0 to 0.5; with 0, lower "
            "priorities wait for as long as higher ones have requests.",
            ge=0,
            le=0.5,
        ),
    ] = 0.0
    promote_after_s: Annotated[
        float,
        _setting(
            "A request that has waited this long is next, whatever its priority; 0 means never.",
            ge=0,
            le=DAY_S,
        ),
    ] = 0.0
    evict_running: Annotated[
        bool,
        _setting(
            "Whether running requests with a priority below 0 that have no response yet are ended to make "
            "room for queued ones."
        ),
    ] = False
    objectives_from: Annotated[
        trust.Speakers,
        _setting(
            "Whose requests may name an InferenceObjective, which sets their priority: anyone's, or only "
            "those from trusted networks."
        ),
    ] = "trusted"
    fairness_ids_from: Annotated[
        trust.Speakers,
        _setting(
            "Whose x-gateway-inference-fairness-id and similar headers choose the flow of a request: "
            "anyone's, or only those from trusted networks. The flow of other requests is their API key or "
            "address."
        ),
    ] = "trusted"
    tenant_header: Annotated[
        str,
        _setting(
            "Header in which a trusted client names the tenant of a request, which is its flow unless it has "
            "a fairness id; empty is none."
        ),
    ] = ""
    kthena_environment: Annotated[
        dict[str, str], _derived("The environment variables of Kthena's queues.")
    ] = {}


class Prefill(Section, frozen=True):
    """Prefill and decode on separate endpoints."""

    remote_min_tokens: Annotated[
        int,
        _setting(
            "Prompts with fewer uncached tokens are prefilled on the decode endpoint; with 0, every prompt "
            "is prefilled remotely.",
            ge=0,
            le=10_000_000,
        ),
    ] = 512


class RateLimits(Section, frozen=True):
    """Token and request limits that several gateways share through Redis."""

    strict: Annotated[
        bool,
        _setting(
            "Whether requests are rejected while the Redis of their limit cannot be reached. If not, each "
            "gateway enforces its share of the limit."
        ),
    ] = False
    wait_s: Annotated[float, _setting("Longest time that a request waits for Redis.", ge=0.005, le=10)] = 0.05
    gateways: Annotated[
        int,
        _setting(
            "Fewest gateway processes that a limit is divided among until Redis has been reached once and "
            "has reported how many there are.",
            live=False,
            ge=1,
            le=10_000,
        ),
    ] = 1
    redis_hosts: Annotated[
        tuple[str, ...],
        _setting(
            "Redis servers that routes may name, and the only ones that are sent $REDIS_PASSWORD. If empty, "
            "routes may name any, and none is sent the password.",
            live=False,
        ),
    ] = ()
    redis_tls: Annotated[bool, _setting("Whether to connect to Redis over TLS.", live=False)] = False
    redis_ca_file: Annotated[
        str | None,
        _setting("CA certificates to verify Redis with; without it, those of the system.", live=False),
    ] = None


class Shutdown(Section, frozen=True):
    """Stopping and upgrading."""

    lameduck_s: Annotated[
        float,
        _setting(
            "After the signal to stop, how long new connections are still served while readiness fails.",
            ge=0,
            le=3600,
        ),
    ] = 0.0
    drain_s: Annotated[
        float, _setting("After that, time for running requests to finish.", ge=0, le=DAY_S)
    ] = 30.0
    retire_s: Annotated[
        float,
        _setting("In an upgrade, time for the requests of a replaced worker to finish.", ge=0, le=DAY_S),
    ] = 600.0


class Scheduling(Section, frozen=True):
    """How endpoints are picked."""

    policy: Annotated[
        Literal["predicted", "least-work", "least-request", "round-robin", "random"],
        _setting("Policy of all pools, unless config_file or a pool sets another."),
    ] = "predicted"
    config_file: Annotated[
        str | None,
        _setting("File with an EndpointPickerConfig, or with Kthena's scheduler configuration."),
    ] = None
    allow_experimental_plugins: Annotated[
        bool, _setting("Whether that file may use plugins that their authors call experimental.")
    ] = False
    ignore_auth: Annotated[
        bool,
        _setting(
            "Whether to start although that file has Kthena's `auth` section: the gateway checks no tokens, "
            "so every request is let in."
        ),
    ] = False
    content: Annotated[dict[str, Any] | None, _derived("The content of config_file.")] = None


class Logging(Section, frozen=True):
    """Logs."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], _setting("Least severity written to standard error.")
    ] = "info"
    access_log: Annotated[
        Literal["text", "json", "off"],
        _setting("Format of the line written to standard output for each request."),
    ] = "text"


class Tracing(Section, frozen=True):
    """Distributed tracing."""

    sample_ratio: Annotated[
        float,
        _setting(
            "Share of the requests without a trace, from 0 to 1, for which the gateway starts one: it sends "
            "them on with a sampled traceparent.",
            ge=0,
            le=1,
        ),
    ] = 0.0


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a gateway, the same for each of its workers."""

    listen: Listen = Listen()
    metrics: Metrics = Metrics()
    admin: Admin = Admin()
    workers: Workers = Workers()
    kubernetes: Kubernetes = Kubernetes()
    clients: Clients = Clients()
    cors: Cors = Cors()
    endpoints: Endpoints = Endpoints()
    engine_metrics: EngineMetrics = EngineMetrics()
    queue: Queue = Queue()
    prefill: Prefill = Prefill()
    rate_limits: RateLimits = RateLimits()
    shutdown: Shutdown = Shutdown()
    scheduling: Scheduling = Scheduling()
    logging: Logging = Logging()
    tracing: Tracing = Tracing()

    def replace(self, **values: Any) -> GatewaySettings:
        """A copy with other values, by key: `settings.replace(clients_max_body_bytes=1024)`.

        Values are not checked. Raises KeyError for a key that does not exist."""
        sections: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            section, _, name = paths()[key].partition(".")
            sections.setdefault(section, {})[name] = value
        changed = {
            section: msgspec.structs.replace(getattr(self, section), **named)
            for section, named in sections.items()
        }
        return msgspec.structs.replace(self, **changed)

    def by_path(self) -> dict[str, Any]:
        """Every value, derived ones included, under its path."""
        return {
            f"{section}.{name}": getattr(getattr(self, section), name)
            for section in self.__struct_fields__
            for name in getattr(self, section).__struct_fields__
        }


@functools.cache
def paths() -> dict[str, str]:
    """The path of each setting and derived value, by its key."""
    return {path.replace(".", "_"): path for path in GatewaySettings().by_path()}


def conflicts(settings: GatewaySettings, unclear: Collection[str] = ()) -> list[tuple[str, str]]:
    """Values that are valid on their own but not together or in detail: path of the setting, and why.

    `unclear` are sections of which a part could not be read: their ports may not be the wanted ones."""
    found = _listening_problems(settings, unclear)
    clients = settings.clients
    if bodies.for_long(clients.max_bodies_bytes) < clients.max_body_bytes:
        longest, least = clients.max_body_bytes, bodies.least_limit(clients.max_body_bytes)
        why = f"{clients.max_bodies_bytes} has no room for one body of {longest} bytes"
        remedy = f"raise it to {least}, or lower clients.max_body_bytes"
        found.append(("clients.max_bodies_bytes", f"{why}: {remedy}"))
    origins = cors.problems(settings.cors.origins, credentials=settings.cors.credentials)
    found += [
        *(("engine_metrics.path", problem) for problem in _path_problems(settings.engine_metrics.path)),
        *(
            ("clients.trusted_networks", problem)
            for problem in trust.problems(settings.clients.trusted_networks)
        ),
        *(("clients.allowed_hosts", problem) for problem in hosts.problems(settings.clients.allowed_hosts)),
        *(
            ("clients.forwarded_paths", problem)
            for problem in forwarded_paths.problems(settings.clients.forwarded_paths)
        ),
        *(("cors.origins", problem) for problem in origins),
        *(
            ("rate_limits.redis_hosts", problem)
            for problem in _host_problems(settings.rate_limits.redis_hosts)
        ),
        *(("queue.weights", problem) for problem in _weight_problems(settings.queue.weights)),
        *(("cors.methods", problem) for problem in cors.not_names(settings.cors.methods)),
        *(("cors.headers", problem) for problem in cors.not_names(settings.cors.headers)),
    ]
    return found


def _listening_problems(settings: GatewaySettings, unclear: Collection[str]) -> list[tuple[str, str]]:
    found = []
    taken: dict[tuple[str, int], str] = {}
    for section in ("listen", "metrics", "admin"):
        page = getattr(settings, section)
        if (problem := hosts.listening_problem(page.host)) is not None:
            found.append((f"{section}.host", problem))
        if section in unclear or not page.port:
            continue
        path = f"{section}.port"
        other = taken.setdefault((page.host, page.port), path)
        if other != path:
            found.append((path, f"{page.port} is already used by {other}: choose another"))
    return found


def weight(text: str) -> tuple[str, float]:
    """A flow and its weight, from "team-a=2". Raises ValueError."""
    flow, _, number = text.rpartition("=")
    return flow.strip(), float(number)


def _weight_problems(weights: tuple[str, ...]) -> list[str]:
    found = []
    known: set[str] = set()
    for text in weights:
        try:
            flow, number = weight(text)
        except ValueError:
            flow, number = "", 0.0
        if not flow or not 0 < number < math.inf:
            found.append(f"{text[:64]!r}: a flow and its weight above 0 are needed, as in team-a=2")
        elif flow in known:
            found.append(f"{text[:64]!r}: the flow {flow[:64]!r} has a weight already: remove one of the two")
        known.add(flow)
    return found


def _host_problems(names: tuple[str, ...]) -> list[str]:
    """Of hosts without port; the address of a Redis is compared with them as it is written."""
    return [
        f"{name[:64]!r}: a host without scheme, port or path is needed, such as redis.example.com or ::1"
        for name in names
        if not hosts.is_plain(name)
    ]


def _path_problems(path: str) -> list[str]:
    if routing.is_page_path(path):
        return []
    return [f"{path[:64]!r} is not a path: a path begins with / and has no spaces"]


def changes(old: GatewaySettings, new: GatewaySettings) -> dict[str, tuple[Any, Any]]:
    """The settings that differ, by path: the old value and the new one."""
    before, after = old.by_path(), new.by_path()
    return {path: (before[path], after[path]) for path in before if before[path] != after[path]}


class InvalidSettings(Exception):  # noqa: N818 - reads as what it says
    """Settings that cannot be used; `errors` has one line for each problem."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = errors
