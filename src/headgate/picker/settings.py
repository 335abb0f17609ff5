"""The settings of a picker. Times are in seconds and sizes in bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from headgate.dataplane.settings import (
    Endpoints,
    EngineMetrics,
    Kubernetes,
    Logging,
    Peers,
    Prefill,
    Queue,
    RateLimits,
    Scheduling,
    Tracing,
    Workers,
)

Unknown: TypeAlias = Literal["auto", "pass", "reject"]

GROUP = "inference.networking.k8s.io"


class PoolNames(msgspec.Struct, frozen=True, kw_only=True):
    """The pools of a picker."""

    names: tuple[str, ...] = ()
    """Names of InferencePools; all of the namespace if there are none, and no selector."""
    namespace: str = "default"
    group: str = GROUP
    """The API group of the InferencePools."""
    selector: dict[str, str] = {}
    """Labels of Pods: a pool of these Pods without an object. Only without names."""
    ports: tuple[int, ...] = ()
    """Its ports."""
    unknown: Unknown = "auto"
    """What happens to models that no object names: they are passed to the endpoint, or rejected; auto passes
    them if no InferenceModel leads to the pool."""


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses and certificates."""

    host: str = "0.0.0.0"  # noqa: S104 - it is a server of proxies on other machines
    grpc_port: int = 9002
    health_port: int = 9003
    metrics_port: int = 9090
    is_secure: bool = True
    """Whether external processing uses TLS."""
    cert_path: str = ""
    """Directory with tls.crt and tls.key; empty for a self-signed certificate."""
    tls_min_version: Literal["1.2", "1.3"] = "1.2"
    tls_ciphers: tuple[str, ...] = ()
    """Ciphers of TLS 1.2 by their names in OpenSSL; empty for the usual ones."""
    reload_s: float = 10.0
    """How often these files are read again; 0 for never."""
    max_message_bytes: int = 4 << 20
    """The longest message of a proxy."""
    page_token_file: Path | None = None
    """With the token that the pages on the metrics port need; None for everybody."""


class Choices(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are treated besides picking."""

    body_mode: Literal["auto", "full-duplex", "buffered"] = "auto"
    """How proxies send bodies that do not say so."""
    fallbacks: int = 0
    """Endpoints named after the picked one, for retries of the proxy."""
    max_body_bytes: int = 32 << 20
    """The longest body of a request."""
    max_bodies_bytes: int = 512 << 20
    """All bodies held at a time."""
    uses_subset: bool = True
    """Whether the proxy may confine a request to some endpoints."""
    error_format: Literal["text", "openai"] = "text"
    asks_for_usage: bool = True
    """Whether token counts are asked for in streams, and taken out again."""
    explains_to: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    """Networks of clients that learn the decision about their request if they ask for it."""
    emits_scores: bool = False
    """Whether the proxy is told the scores of all endpoints."""
    passes_bodies: bool = False
    """Whether bodies are not read at all, and requests are picked for by load alone."""
    is_conformance: bool = False
    """Whether the headers of conformance tests choose endpoints."""


class PickerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings of one picker process."""

    pools: PoolNames = PoolNames()
    listening: Listening = Listening()
    choices: Choices = Choices()
    kubernetes: Kubernetes = Kubernetes()
    endpoints: Endpoints = Endpoints()
    engine_metrics: EngineMetrics = EngineMetrics()
    queue: Queue = Queue(objectives_from="anyone", fairness_ids_from="anyone")
    prefill: Prefill = Prefill()
    rate_limits: RateLimits = RateLimits()
    scheduling: Scheduling = Scheduling()
    workers: Workers = Workers()
    logging: Logging = Logging(access_log="off")
    peers: Peers = Peers()
    tracing: Tracing | None = Tracing(sampled_from="anyone")
    """None if no traces are exported, whatever the environment says."""
    drain_s: float = 30.0
    """How long requests may take to end after the signal to stop."""
