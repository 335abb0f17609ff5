"""Sections about endpoints: connections to them, reading their metrics, and how one is picked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from headgate.dataplane.settings.section import DAY_S, Section, derived, setting


class Endpoints(Section, frozen=True):
    """Connections to endpoints: timeouts, limits, retries and ejection."""

    connect_timeout_s: Annotated[
        float,
        setting(
            "Time to connect to an endpoint, TLS included; the default allows for one lost packet.",
            ge=0.01,
            le=600,
        ),
    ] = 3.0
    response_timeout_s: Annotated[
        float,
        setting(
            "Time until the head of a response that is not streamed, which engines send when all of it is "
            "generated; for pools without a timeout of their own.",
            ge=1,
            le=DAY_S,
        ),
    ] = 600.0
    stream_response_timeout_s: Annotated[
        float,
        setting(
            "Time until the head of a streamed response, which comes with the first token at the latest; for "
            "pools without a timeout of their own.",
            ge=1,
            le=DAY_S,
        ),
    ] = 300.0
    stream_idle_timeout_s: Annotated[
        float,
        setting("An endpoint that pauses for this long within a response has failed.", ge=0.1, le=DAY_S),
    ] = 600.0
    hang_s: Annotated[
        float,
        setting(
            "An endpoint is ejected when three requests have waited for it this long without a byte, while "
            "other endpoints respond.",
            ge=1,
            le=DAY_S,
        ),
    ] = 30.0
    max_response_head_bytes: Annotated[
        int, setting("Longest response head from an endpoint.", ge=1024, le=1 << 20)
    ] = 64 * 1024
    max_connections: Annotated[
        int,
        setting(
            "Connections of each worker to one endpoint, and so requests in flight there.", ge=1, le=65_000
        ),
    ] = 1024
    max_idle_connections: Annotated[
        int, setting("Idle connections that each worker keeps open to one endpoint.", ge=0, le=65_000)
    ] = 256
    keep_alive_s: Annotated[
        int,
        setting(
            "How long an idle connection to an endpoint is kept: less than the 5 s after which uvicorn, and "
            "so vLLM, closes it.",
            ge=1,
            le=3600,
        ),
    ] = 4
    ejection_failures: Annotated[
        int,
        setting(
            "Failures in a row after which an endpoint gets no requests for a while; 0 turns off all "
            "ejections.",
            ge=0,
            le=1_000_000,
        ),
    ] = 5
    max_ejection_percent: Annotated[
        int,
        setting(
            "How much of a pool may be ejected at a time, in percent; one endpoint always stays.",
            ge=0,
            le=100,
        ),
    ] = 50
    retries: Annotated[
        int,
        setting("Retries on other endpoints, for pools without a number of their own.", ge=0, le=100),
    ] = 2


class EngineMetrics(Section, frozen=True):
    """Reading the metrics pages and model lists of engines."""

    enabled: Annotated[bool, setting("Whether they are read.")] = True
    interval_s: Annotated[
        float, setting("Interval between two reads of an engine while it is quiet.", ge=0.05, le=3600)
    ] = 1.0
    busy_interval_s: Annotated[
        float, setting("Interval while requests are queued, or may be soon.", ge=0.01, le=3600)
    ] = 0.1
    max_per_s: Annotated[
        int,
        setting(
            "Most reads per second, all workers together; with more engines, each is read less often.",
            ge=1,
            le=100_000,
        ),
    ] = 100
    stale_s: Annotated[
        float,
        setting(
            "Readings older than this, and than two intervals, are ignored.",
            ge=0.1,
            le=3600,
        ),
    ] = 5.0
    timeout_s: Annotated[float, setting("Time for an engine to send its page.", ge=0.05, le=600)] = 5.0
    path: Annotated[str, setting("Path of the metrics page, unless the Pod sets prometheus.io/path.")] = (
        "/metrics"
    )
    port: Annotated[
        int,
        setting(
            "Port of the metrics page, unless the Pod sets prometheus.io/port; 0 is the port that serves "
            "requests.",
            ge=0,
            le=65_535,
        ),
    ] = 0


class Scheduling(Section, frozen=True):
    """How endpoints are picked."""

    policy: Annotated[
        Literal["predicted", "least-work", "least-request", "round-robin", "random"],
        setting("Policy of all pools, unless config_file or a pool sets another."),
    ] = "predicted"
    config_file: Annotated[
        str | None,
        setting("File with an EndpointPickerConfig, or with Kthena's scheduler configuration."),
    ] = None
    allow_experimental_plugins: Annotated[
        bool, setting("Whether that file may use plugins that their authors call experimental.")
    ] = False
    ignore_auth: Annotated[
        bool,
        setting(
            "Whether to ignore Kthena's `auth` section in that file, by which clients need tokens: then "
            "every request is let in, unless the settings in `auth` say otherwise."
        ),
    ] = False
    content: Annotated[dict[str, Any] | None, derived("The content of config_file.")] = None


class Prefill(Section, frozen=True):
    """Prefill and decode on separate endpoints."""

    remote_min_tokens: Annotated[
        int,
        setting(
            "Prompts with fewer uncached tokens are prefilled on the decode endpoint; with 0, every prompt "
            "is prefilled remotely.",
            ge=0,
            le=10_000_000,
        ),
    ] = 512
