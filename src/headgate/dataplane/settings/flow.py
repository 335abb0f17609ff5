"""Sections about flow control: queues, and limits that gateways share."""

from __future__ import annotations

from typing import Annotated, Literal

from headgate.dataplane import trust
from headgate.dataplane.settings.section import DAY_S, Section, derived, setting
from headgate.flow.capacity.predicted import TARGET_S
from headgate.flow.queue.settings import FairnessName, OrderingName


class Queue(Section, frozen=True):
    """Flow control: which requests wait, for how long, and in which order."""

    enabled: Annotated[
        bool,
        setting(
            "Whether requests are queued while their pool has no capacity. If not, only requests with a "
            "priority below 0 are rejected then."
        ),
    ] = True
    no_endpoint_wait_s: Annotated[
        float,
        setting(
            "How long requests wait for a pool without ready endpoints, such as one that scales from zero; "
            "0 rejects them immediately.",
            ge=0,
            le=DAY_S,
        ),
    ] = 30.0
    start_wait_s: Annotated[
        float,
        setting(
            "How long requests wait for the first endpoint of a pool that is started for them "
            "(headgate.dev/scale-from-zero), whether or not flow control is enabled; 0 rejects them "
            "immediately, and they start it nevertheless.",
            ge=0,
            le=DAY_S,
        ),
    ] = 600.0
    start_max_requests: Annotated[
        int,
        setting(
            "Most requests that wait for the start of one pool, divided equally among the workers; 0 is no "
            "limit besides max_requests.",
            ge=0,
            le=10_000_000,
        ),
    ] = 1000
    start_max_bytes: Annotated[
        int,
        setting("Most bytes of their bodies; 0 is no limit besides max_bytes.", ge=0, le=1 << 40),
    ] = 67_108_864
    ttl_s: Annotated[
        float,
        setting(
            "Longest time in the queue; 0 means for as long as the client stays connected.", ge=0, le=DAY_S
        ),
    ] = 60.0
    detector: Annotated[
        Literal["predicted-work", "utilization-detector", "concurrency-detector"],
        setting("How the gateway decides whether a pool has capacity."),
    ] = "predicted-work"
    target_s: Annotated[
        float,
        setting(
            "For predicted-work: a pool has capacity while one of its endpoints is expected to start a new "
            "request within this time, or longer where short prompts fill its steps slowly. The rest waits "
            "in the gateway, where its order can still change.",
            ge=0.01,
            le=3600,
        ),
    ] = TARGET_S
    max_in_flight: Annotated[
        int,
        setting(
            "For concurrency-detector: requests in flight on each endpoint while its pool has capacity.",
            ge=1,
            le=1_000_000,
        ),
    ] = 100
    max_requests: Annotated[
        int,
        setting(
            "Most queued requests of one pool, all workers together; 0 is no limit.", ge=0, le=10_000_000
        ),
    ] = 5000
    max_bytes: Annotated[int, setting("Most bytes of their bodies; 0 is no limit.", ge=0, le=1 << 40)] = (
        1_000_000_000
    )
    band_max_requests: Annotated[
        int,
        setting("Most queued requests of one priority of a pool; 0 is no limit.", ge=0, le=10_000_000),
    ] = 5000
    band_max_bytes: Annotated[
        int, setting("Most bytes of their bodies; 0 is no limit.", ge=0, le=1 << 40)
    ] = 1_000_000_000
    fairness: Annotated[FairnessName, setting("How the next flow (tenant) of a priority is chosen.")] = (
        "deficit-round-robin"
    )
    order: Annotated[OrderingName, setting("How the next request of a flow is chosen.")] = (
        "fcfs-ordering-policy"
    )
    weights: Annotated[
        tuple[str, ...],
        setting("Relative shares of flows, such as team-a=2; flows not listed have 1."),
    ] = ()
    floor_share: Annotated[
        float,
        setting(
            "Least share of the work for each priority with queued requests, from 0 to 0.5; with 0, lower "
            "priorities wait for as long as higher ones have requests.",
            ge=0,
            le=0.5,
        ),
    ] = 0.0
    promote_after_s: Annotated[
        float,
        setting(
            "A request that has waited this long is next, whatever its priority; 0 means never.",
            ge=0,
            le=DAY_S,
        ),
    ] = 0.0
    evict_running: Annotated[
        bool,
        setting(
            "Whether running requests with a priority below 0 that have no response yet are ended to make "
            "room for queued ones."
        ),
    ] = False
    objectives_from: Annotated[
        trust.Speakers,
        setting(
            "Whose requests may name an InferenceObjective, which sets their priority: anyone's, or only "
            "those from trusted networks."
        ),
    ] = "trusted"
    fairness_ids_from: Annotated[
        trust.Speakers,
        setting(
            "Whose x-gateway-inference-fairness-id and similar headers choose the flow of a request: "
            "anyone's, or only those from trusted networks. The flow of other requests is their API key or "
            "address."
        ),
    ] = "trusted"
    tenant_header: Annotated[
        str,
        setting(
            "Header in which a trusted client names the tenant of a request, which is its flow unless it has "
            "a fairness id; empty is none."
        ),
    ] = ""
    kthena_environment: Annotated[
        dict[str, str], derived("The environment variables of Kthena's queues.")
    ] = {}


class RateLimits(Section, frozen=True):
    """Token and request limits that several gateways share through Redis."""

    strict: Annotated[
        bool,
        setting(
            "Whether requests are rejected while the Redis of their limit cannot be reached. If not, each "
            "gateway enforces its share of the limit."
        ),
    ] = False
    wait_s: Annotated[float, setting("Longest time that a request waits for Redis.", ge=0.005, le=10)] = 0.05
    gateways: Annotated[
        int,
        setting(
            "Fewest gateway processes that a limit is divided among until Redis has been reached once and "
            "has reported how many there are.",
            live=False,
            ge=1,
            le=10_000,
        ),
    ] = 1
    redis_hosts: Annotated[
        tuple[str, ...],
        setting(
            "Redis servers that routes may name, and the only ones that are sent $REDIS_PASSWORD. If empty, "
            "routes may name any, and none is sent the password.",
            live=False,
        ),
    ] = ()
    redis_tls: Annotated[bool, setting("Whether to connect to Redis over TLS.", live=False)] = False
    redis_ca_file: Annotated[
        str | None,
        setting("CA certificates to verify Redis with; without it, those of the system.", live=False),
    ] = None


def weight(text: str) -> tuple[str, float]:
    """A flow and its weight, from "team-a=2". Raises ValueError."""
    flow, _, number = text.rpartition("=")
    return flow.strip(), float(number)
