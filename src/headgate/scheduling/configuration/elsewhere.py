"""Plugins of the endpoint picker that are not part of a policy: built into the gateway, or unsupported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Stance = Literal["done", "without effect", "refused", "queue"]
"""`queue`: it configures the queue, which `flow.configuration` reads."""


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """How the gateway treats such a plugin."""

    stance: Stance
    why: str
    alpha: bool = False
    instead: str = ""
    """The alternative to its parameters, which are ignored; empty if none is needed."""


def _done(why: str, *, instead: str = "", alpha: bool = False) -> Elsewhere:
    return Elsewhere(stance="done", why=why, instead=instead, alpha=alpha)


def _idle(why: str, *, alpha: bool = False) -> Elsewhere:
    return Elsewhere(stance="without effect", why=why, alpha=alpha)


def _refused(why: str, *, alpha: bool = False) -> Elsewhere:
    return Elsewhere(stance="refused", why=why, alpha=alpha)


def _queue(*, alpha: bool = False) -> Elsewhere:
    return Elsewhere(stance="queue", why="it says how requests wait", alpha=alpha)


_INDEX = "the gateway keeps one prefix index for all policies, as large as the engines' caches"
_READS = "the gateway reads engines' metrics and models itself, at a pace of its own"
_TOKENS = "prompts are counted by their bytes, and by what engines say of their usage"
_PARSES = "the gateway routes by the body itself"
_CLUSTERS = "endpoints are those of one cluster"
_OBJECTS = "endpoints come from the objects of the API server"

TYPES: Mapping[str, Elsewhere] = {
    "approx-prefix-cache-producer": _done(_INDEX),
    "precise-prefix-cache-producer": _done(
        f"{_INDEX}; engines that publish events feed it",
        instead="--kv-events-config of engines is read; headgate.dev/kv-events goes before it",
    ),
    "inflight-load-producer": _done("each request is in the ledger of its endpoint from pick to end"),
    "predicted-latency-producer": _done("each endpoint's rates are learned from its answers"),
    "token-producer": _done(_TOKENS),
    "session-id-producer": _done(
        "session ids are read where a session-affinity plugin says",
        instead="name header or cookie in its sessionIdConfig.sources",
    ),
    "metrics-data-source": _done(_READS, instead="annotate Pods with prometheus.io/port, path or scheme"),
    "models-data-source": _done(_READS),
    "core-metrics-extractor": _done(
        _READS, instead="the names of vLLM's and SGLang's metrics are known; others are not read"
    ),
    "models-data-extractor": _done(_READS),
    "topology-extractor": _done(
        "topology is that of a Pod's labels topology.kubernetes.io/... and kubernetes.io/hostname",
        instead="give the Pods those labels",
        alpha=True,
    ),
    "models-responder": _done("GET /v1/models lists all models and adapters that have a route", alpha=True),
    "openai-parser": _done(_PARSES),
    "anthropic-parser": _done(_PARSES),
    "passthrough-parser": _done(
        "the endpoint picker passes bodies unread if it is the only parser; the gateway always reads them"
    ),
    "vllmhttp-parser": _idle("only bodies with a model are routed"),
    "sglanghttp-parser": _idle("only bodies with a model are routed"),
    "vllmgrpc-parser": _done("the endpoint picker reads calls of vLLM's service; the gateway speaks HTTP"),
    "vertexai-parser": _idle("only bodies with a model are routed"),
    "k8s-notification-source": _idle(_OBJECTS),
    "endpoint-notification-source": _idle(_OBJECTS),
    "file-discovery": _idle(_OBJECTS),
    "dcgm-data-source": _idle("GPUs are not asked, only engines", alpha=True),
    "dcgm-extractor": _idle("GPUs are not asked, only engines", alpha=True),
    "dp-rank-header-handler": _idle("engines choose among their ranks themselves"),
    "mm-embeddings-cache-producer": _idle("media are not told apart from text"),
    "burst-prefix-cache-producer": _idle(
        "no request is held back: each is in the index as soon as it is sent", alpha=True
    ),
    "p2p-source-producer": _idle("engines are not told where else a prefix is", alpha=True),
    "global-strict-fairness-policy": _queue(),
    "round-robin-fairness-policy": _queue(),
    "program-aware-fairness": _queue(),
    "fcfs-ordering-policy": _queue(),
    "edf-ordering-policy": _queue(),
    "slo-deadline-ordering-policy": _queue(),
    "static-usage-limit-policy": _queue(),
    "priority-holdback-policy": _queue(alpha=True),
    "soft-reflective-ceiling-policy": _queue(alpha=True),
    "sheddable-eviction-filter": _queue(alpha=True),
    "priority-then-time-eviction-order-policy": _queue(alpha=True),
    "latency-slo-admitter": _idle("no request is refused for its objective"),
    "probabilistic-admitter": _idle("no request is refused by chance"),
    "mm-embeddings-cache-scorer": _refused("media are not told apart from text: remove it"),
    "data-parallel-profile-handler": _refused(
        "each rank is an endpoint of its own: use single-profile-handler"
    ),
    "header-profile-handler": _refused(
        "a request cannot name its profile: use the annotation headgate.dev/scheduling-profile", alpha=True
    ),
    "multicluster-queue-scorer": _refused(_CLUSTERS, alpha=True),
    "multicluster-kv-cache-utilization-scorer": _refused(_CLUSTERS, alpha=True),
    "multicluster-prefix-cache-scorer": _refused(_CLUSTERS, alpha=True),
    "multicluster-topology-scorer": _refused(_CLUSTERS, alpha=True),
    "multicluster-metrics-data-source": _refused(_CLUSTERS, alpha=True),
}

RENAMED: Mapping[str, str] = {
    "by-label-selector": "label-selector-filter",
    "kv-cache": "kv-cache-utilization-scorer",
    "kv-cache-scorer": "kv-cache-utilization-scorer",
    "max-score": "max-score-picker",
    "prefix-cache": "prefix-cache-scorer",
    "queue": "queue-scorer",
    "random": "random-picker",
    "single-profile": "single-profile-handler",
}
"""Former names of the same plugin."""

DEPRECATED: Mapping[str, str] = {
    **RENAMED,
    "by-label": "label-selector-filter",
    "model-server-protocol-metrics": "core-metrics-extractor",
    "tokenizer": "token-producer",
    "pd-profile-handler": "disagg-profile-handler",
    "disagg-headers-handler": "disagg-profile-handler",
    "prefill-header-handler": "disagg-profile-handler",
}
"""Deprecated names, which still work, and their replacements."""
