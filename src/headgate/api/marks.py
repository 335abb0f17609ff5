"""Labels and annotations of Headgate and Kubernetes, and how to parse their values."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass

DOMAIN = "headgate.dev/"
"""Prefix of Headgate's own names."""

ADDRESS = "headgate.dev/address"
"""On a Pod: `host` or `host:port` of a server that runs elsewhere; the Pod has no process of its own."""

PORT = "headgate.dev/port"
"""On a Pod: the port to reach it at, if all Pods of a machine share one address. In a pool with several
ports: one for each of them, in order, separated by commas."""

PATH_PREFIX = "headgate.dev/path-prefix"
"""On a Pod: what precedes the path of every request to it, such as /llama, if a proxy in front of the engine
expects that."""

BOOTSTRAP_PORT = "headgate.dev/bootstrap-port"
"""On an SGLang prefill Pod: the port at which others fetch the KV cache; 8998 if unset."""

REMOTE_PREFILL_TOKENS = "headgate.dev/remote-prefill-tokens"
"""On a ModelServer with pdGroup, or an InferencePool whose Pods have roles: prompts with fewer uncached
tokens are prefilled where they are decoded."""

ROLE = "llm-d.ai/role"
"""A label on a Pod of an InferencePool: whether it prefills, decodes, or does both."""

KV_CONNECTOR = "headgate.dev/kv-connector"
"""On an InferencePool whose Pods have roles: how the KV cache is transferred, as in `kvConnector` of a
ModelServer; nixl if unset."""

PROTOCOL = "headgate.dev/protocol"
"""On an InferencePool: `https` if its endpoints use it; `http` if unset."""

TLS_AUTHORITIES = "headgate.dev/tls-ca"
"""On a ModelServer or InferencePool with https: `secret` or `secret/key`, the CA certificates in PEM that may
have signed its endpoints' certificates, instead of those of the system. The default key is ca.crt."""

TLS_SERVER_NAME = "headgate.dev/tls-server-name"
"""On a ModelServer or InferencePool with https: the name that certificates of endpoints must have."""

TLS_INSECURE = "headgate.dev/tls-insecure"
"""On a ModelServer or InferencePool with https: "true" accepts any certificate."""

API_KEY = "headgate.dev/api-key"
"""A label on a Secret: "true" if it holds an API key of the gateway."""

SCHEDULING_PROFILE = "headgate.dev/scheduling-profile"
"""On a ModelServer or InferencePool: the profile of the scheduler's configuration, or the policy, that picks
its endpoints."""

MODELS = "headgate.dev/models"
"""On an InferencePool: model names, separated by commas, whose requests it gets; "*" is every name without
another route."""

SERVED_MODEL = "headgate.dev/model"
"""On an InferencePool: the model name sent to its endpoints in requests by `headgate.dev/models`; without it,
the client's own."""

ENGINE = "headgate.dev/engine"
"""On an InferencePool: the engine of its endpoints, as in `inferenceEngine` of a ModelServer; vLLM if
unset."""

ACTIVE_PORTS = ("llm-d.ai/active-ports", "inference.networking.k8s.io/active-ports")
"""On a Pod of an InferencePool: the ports of the pool that it serves, separated by commas; all if it has
neither. The first one present counts."""

METRICS_PORT = "prometheus.io/port"
METRICS_PATH = "prometheus.io/path"
METRICS_SCHEME = "prometheus.io/scheme"
"""On a Pod: where its metrics page is, if not at /metrics of the serving port."""

KV_EVENTS = "headgate.dev/kv-events"
KV_EVENTS_REPLAY = "headgate.dev/kv-events-replay"
"""On a Pod, or on a ModelServer or InferencePool for all of its Pods: where the engine publishes KV events,
and where it replays missed ones, in the engine's syntax, like tcp://*:5557. Only the port counts. Without the
first, the arguments of the Pod's containers are used; "off" disables KV events."""

KV_EVENTS_RANKS = "headgate.dev/kv-events-ranks"
"""With it: how many data-parallel ranks publish, on consecutive ports; 1 if unset."""

SCALE_FROM_ZERO = "headgate.dev/scale-from-zero"
"""On a ModelServer or InferencePool that may have no Pods until requests come: the seconds that a start is
expected to take. Gateways hold its requests meanwhile."""

START_FAILED = "headgate.dev/start-failed"
"""With it: why the last start failed, in plain text. Gateways reject requests with this message while there
is no endpoint."""

ZERO_GRACE_PERIOD = "headgate.dev/scale-to-zero-grace-period"
"""On an AutoscalingPolicyBinding with minReplicas 0: how long there must be no requests before the last
replica goes, as a duration. Without it, one replica stays."""

ACTUATE = "headgate.dev/actuate"
"""On a VariantAutoscaling: `direct` has the controller write the replicas of its workload. Without it, others
scale by the gauges."""
DIRECT = "direct"

LEARNED_PROFILE = "headgate.dev/learned-profile"
"""On a VariantAutoscaling: JSON of the profile that the controller has learned and plans with."""

PLANNED_LOAD = "headgate.dev/planned-load"
"""On a VariantAutoscaling: JSON of the load that its model was last planned for."""

WEIGHT = "headgate.dev/weight"
"""On a Pod: its share of the pool's requests, relative to the other Pods, which have 1 unless they say so."""

WEIGHTS = "headgate.dev/weights"
"""On a ModelServer or InferencePool: weights of its Pods by their labels, as planned; JSON as in
api.weights."""

FALLBACK = "headgate.dev/fallback"
"""On a ModelRoute, InferenceModel, InferencePool or HTTPRoute: the models that take over its requests, in
order, separated by commas; `pool=NAME` is a pool of the same kind and namespace that has the same model, and
`provider=NAME/MODEL` an external provider that the gateway's settings allow."""

FALLBACK_ON = "headgate.dev/fallback-on"
"""With it: for which reasons, as in api.fallbacks, or for which statuses; separated by commas."""

FALLBACK_AFTER = "headgate.dev/fallback-after"
"""With it: how long a request waits for a saturated pool before."""

FALLBACK_FIRST_TOKEN = "headgate.dev/fallback-first-token"  # noqa: S105 - a time, not a secret
"""With it: the time within which the first token must be expected."""

OF_FALLBACKS = (FALLBACK, FALLBACK_ON, FALLBACK_AFTER, FALLBACK_FIRST_TOKEN)

OF_PODS = frozenset(
    {
        WEIGHT,
        *(ADDRESS, PORT, PATH_PREFIX, BOOTSTRAP_PORT, *ACTIVE_PORTS),
        *(METRICS_PORT, METRICS_PATH, METRICS_SCHEME),
        *(KV_EVENTS, KV_EVENTS_REPLAY, KV_EVENTS_RANKS),
    }
)
"""Annotations that routing reads on Pods."""

LOG_ENDPOINT = "headgate.dev/log-endpoint"
"""On a Node: base URL, with a secret, of the loopback server for the logs of its Pods."""

NODE_INSTANCE = "headgate.dev/node-instance"
"""On a Node: which state directory it runs from, so that two nodes of one name are noticed."""

RELEASED_FROM = "headgate.dev/released-from"
"""On a ControllerRevision of a LeaderWorkerSet: groups from this number on are made from it."""

MANIFEST_HASH = "headgate.dev/manifest-hash"
"""On objects that `headgate up` created: hash of their manifest; while it is unchanged, later edits stay."""

OF_MODEL_SERVERS = frozenset(
    {
        *(TLS_AUTHORITIES, TLS_SERVER_NAME, TLS_INSECURE),
        *(KV_EVENTS, KV_EVENTS_REPLAY, KV_EVENTS_RANKS),
        *(REMOTE_PREFILL_TOKENS, SCHEDULING_PROFILE, MANIFEST_HASH),
        *(SCALE_FROM_ZERO, START_FAILED, WEIGHTS),
    }
)
"""Annotations that are read on ModelServers."""

OF_BINDINGS = frozenset({ZERO_GRACE_PERIOD, MANIFEST_HASH})
"""Annotations that are read on AutoscalingPolicyBindings."""

OF_VARIANTS = frozenset({ACTUATE, LEARNED_PROFILE, PLANNED_LOAD, MANIFEST_HASH})
"""Annotations that are read on VariantAutoscalings."""

POOL_V1 = "headgate.dev/inference-pool-v1"
"""On a v1alpha1 InferencePool converted from v1: JSON of what v1alpha1 has no field for."""

POOL_V1ALPHA1 = "headgate.dev/inference-pool-v1alpha1"
"""On a v1 InferencePool converted from v1alpha1: JSON of what v1 has no field for."""

OF_INFERENCE_POOLS = frozenset(
    {
        *(MODELS, SERVED_MODEL, ENGINE, SCHEDULING_PROFILE),
        *(PROTOCOL, TLS_AUTHORITIES, TLS_SERVER_NAME, TLS_INSECURE),
        *(KV_CONNECTOR, REMOTE_PREFILL_TOKENS),
        *(SCALE_FROM_ZERO, START_FAILED, WEIGHTS),
        *(KV_EVENTS, KV_EVENTS_REPLAY, KV_EVENTS_RANKS),
        *(MANIFEST_HASH, POOL_V1, POOL_V1ALPHA1),
        *OF_FALLBACKS,
    }
)
"""Annotations that are read on InferencePools."""

POD_TEMPLATE_HASH = "pod-template-hash"
"""On ReplicaSets and their Pods: the revision of the Deployment's template that they come from."""

REVISION = "deployment.kubernetes.io/revision"
"""On Deployments and ReplicaSets: the number of the rollout."""


@dataclass(frozen=True)
class Address:
    """Address of a server; without a port, the caller knows it."""

    host: str
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """`host`, `host:port`, `v6`, `[v6]` or `[v6]:port`. Raises ValueError, which says what to write."""
        host, colon, port = text.strip().rpartition(":")
        if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
            host, port, colon = text.strip(), "", ""
        host = host.removeprefix("[").removesuffix("]")
        is_port = port.isascii() and port.isdecimal() and 0 < int(port) < 65536
        if not host or set(host) & set("/@? \t[]") or (colon and not is_port):
            raise ValueError(f"{text!r} is not an address; write host or host:port, without a scheme or path")
        return cls(host, int(port) if port else None)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


# TLS verification of endpoints, by annotations of their ModelServer or InferencePool.
CA_KEY = "ca.crt"
"""The default key of a Secret for CA certificates."""

ANNOTATIONS = (TLS_AUTHORITIES, TLS_SERVER_NAME, TLS_INSECURE)

_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_SECRET_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")
_SECRET_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")


class InvalidAnnotationError(ValueError):
    """An invalid annotation; `annotation` is its key."""

    def __init__(self, annotation: str, message: str) -> None:
        super().__init__(message)
        self.annotation = annotation


def protocol(annotations: Mapping[str, str]) -> str:
    """The protocol of an InferencePool's endpoints, http or https. Raises InvalidAnnotationError."""
    given = annotations.get(PROTOCOL, "http")
    if given not in ("http", "https"):
        raise InvalidAnnotationError(PROTOCOL, f"{given[:64]!r} is neither http nor https")
    return given


MAX_START_S = 86_400.0
MAX_FAILURE_CHARACTERS = 256


def start_s(annotations: Mapping[str, str]) -> float | None:
    """How long a start from zero is expected to take; None without the annotation. Raises
    InvalidAnnotationError."""
    given = annotations.get(SCALE_FROM_ZERO)
    if given is None:
        return None
    seconds = float(given) if _SECONDS.fullmatch(given) else -1.0
    if not 0 <= seconds <= MAX_START_S:
        told = f"{given[:64]!r} is not a number of seconds from 0 to {MAX_START_S:.0f}, such as 90"
        raise InvalidAnnotationError(SCALE_FROM_ZERO, told)
    return seconds


def start_failure(annotations: Mapping[str, str]) -> str:
    """Why the last start failed, on one line and cut to MAX_FAILURE_CHARACTERS; empty if it did not."""
    return failure_text(annotations.get(START_FAILED, ""))


def failure_text(given: str) -> str:
    """As much of it as clients get: one line, with dots where it was cut."""
    given = given[: 4 * MAX_FAILURE_CHARACTERS]
    text = " ".join("".join(char if char.isprintable() else " " for char in given).split())
    return text if len(text) <= MAX_FAILURE_CHARACTERS else f"{text[: MAX_FAILURE_CHARACTERS - 3]}..."


@dataclass(frozen=True)
class EndpointTls:
    """Requirements on the certificates of endpoints."""

    secret: str = ""
    """Name of the Secret with the CA certificates; empty for those of the system."""
    key: str = CA_KEY
    server_name: str = ""
    """The name that they must have; empty for the endpoint's address."""
    insecure: bool = False

    @classmethod
    def parse(cls, annotations: Mapping[str, str]) -> EndpointTls:
        """Raises InvalidAnnotationError, which says what to write."""
        secret, key = "", CA_KEY
        named = annotations.get(TLS_AUTHORITIES)
        if named is not None:
            secret, _, key = named.partition("/")
            key = key or CA_KEY
            if not _SECRET_NAME.fullmatch(secret) or not _SECRET_KEY.fullmatch(key):
                told = f"{named!r} is not the name of a Secret; write `secret` or `secret/key`"
                raise InvalidAnnotationError(TLS_AUTHORITIES, told)
        name = annotations.get(TLS_SERVER_NAME, "")
        if name and not _is_host(name):
            raise InvalidAnnotationError(TLS_SERVER_NAME, f"{name!r} is no DNS name and no address")
        insecure = annotations.get(TLS_INSECURE, "false")
        if insecure not in ("true", "false"):
            raise InvalidAnnotationError(TLS_INSECURE, f'{insecure!r} is neither "true" nor "false"')
        if insecure == "true" and secret:
            told = f'"true" contradicts {TLS_AUTHORITIES}: remove one of them'
            raise InvalidAnnotationError(TLS_INSECURE, told)
        return cls(secret, key, name, insecure == "true")


def _is_host(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return _HOST_NAME.fullmatch(name) is not None
    return True
