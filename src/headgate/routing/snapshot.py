"""The internal model that every dialect is translated into: route, rule, target, pool, endpoint.

A Snapshot is immutable; a request keeps the one that it started with.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Mapping
from typing import Literal, TypeVar

import msgspec

from headgate.api import ObjectRef
from headgate.routing.patterns import RequestPattern
from headgate.routing.problems import Problem
from headgate.routing.tls import Tls

Key = TypeVar("Key")

MODEL_SERVER = "ModelServer"
MODEL_ROUTE = "ModelRoute"
INFERENCE_POOL = "InferencePool"
INFERENCE_POOL_V1ALPHA1 = "InferencePool.v1alpha1"
"""A kind of another API group, which a cluster may have beside the one of v1."""
INFERENCE_MODEL = "InferenceModel"
INFERENCE_OBJECTIVE = "InferenceObjective"
INFERENCE_MODEL_REWRITE = "InferenceModelRewrite"
PROVIDER = "Provider"
"""An external provider, which is no object: the gateway's settings have it."""


def name_of(ref: ObjectRef) -> str:
    """The name of a pool or route in metrics and logs: "namespace/name", prefixed with the kind unless it is
    one of Kthena's, as objects of two kinds may share a name; an external provider's is "provider/name"."""
    if ref.kind == PROVIDER:
        return f"provider/{ref.name}"
    return str(ref.key) if ref.kind in (MODEL_SERVER, MODEL_ROUTE) else f"{ref.kind}/{ref.key}"


class Endpoint(msgspec.Struct, frozen=True):
    """One server of a model; equal endpoints are the same server.

    `name` is the Pod's "namespace/name", with a suffix like "-rank-0" if each of its ports is an endpoint.
    """

    name: str
    host: str
    port: int
    prefix: str = ""
    """Precedes the path of every request, such as /llama; usually empty."""

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Connector = Literal["http", "lmcache", "nixl", "mooncake", "sglang"]
"""How the KV cache gets from the prefill endpoint to the decode endpoint."""


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """The role of one endpoint in a pool with disaggregated prefill and decode; it may do both."""

    prefills: bool
    decodes: bool
    group: str | None
    """Caches are handed over only within a group; None is in no group."""
    bootstrap_port: int = 8998
    """Port at which an SGLang prefill server offers its cache."""


class PrefillDecode(msgspec.Struct, frozen=True, kw_only=True):
    """How the endpoints of a pool share the two phases of a request."""

    connector: Connector
    roles: Mapping[Endpoint, Role]
    """Role of each endpoint of the pool."""
    remote_tokens: int | None = None
    """Prompts with fewer uncached tokens are prefilled where they are decoded; None uses the gateway's
    setting."""


class MetricsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Location of an endpoint's metrics page, as far as its Pod specifies it."""

    port: int | None = None
    path: str = ""
    is_https: bool | None = None
    """None if the Pod does not specify it: then as on the serving port if it is that port, else HTTP."""


class KvEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Where an engine publishes KV events: ports of the endpoint's host."""

    port: int
    replay_port: int | None = None
    """Port for replays of missed events; None if there are none."""
    ranks: int = 1
    """Number of data-parallel ranks that publish, on consecutive ports."""


class Start(msgspec.Struct, frozen=True):
    """The start of a pool that may be scaled to zero: requests cause it, and wait for it."""

    expected_s: float
    """Seconds that it is expected to take."""
    failure: str = ""
    """Why the last one failed, on one line; empty if it did not."""


class Picker(msgspec.Struct, frozen=True):
    """A Service that picks the endpoints of a pool for requests by the Gateway API. Requests to the gateway's
    own API do not ask it."""

    name: str
    """Of the Service, in the namespace of the pool."""
    port: int
    fails_open: bool
    """Whether the gateway picks itself while the picker cannot be reached; otherwise it refuses requests."""
    fault: str = ""
    """Why it can never be asked; empty if it can."""


class Rewrites(msgspec.Struct, frozen=True):
    """Other model names for the requests of a pool. Each route has one rule, whose targets are the names."""

    named: Mapping[str, Route] = {}
    """By the model that the client requests."""
    others: Route | None = None
    """For all other models; None if they keep their names."""

    def of(self, model: str) -> Route | None:
        """What applies to a model; None if nothing does."""
        return self.named.get(model, self.others)

    def routes(self) -> tuple[Route, ...]:
        """Every route; one for several models appears several times."""
        return (*self.named.values(), *((self.others,) if self.others is not None else ()))


class Next(msgspec.Struct, frozen=True):
    """What may take over the requests of a route or pool: another model, another pool for the same one, or an
    external provider."""

    model: str
    """Empty for a pool, and for the first model of a provider."""
    pool: ObjectRef | None = None
    """None for a model, whose own routes lead to a pool."""
    provider: str = ""

    @property
    def name(self) -> str:
        """In logs and explanations."""
        if self.provider:
            return f"provider={self.provider}/{self.model}" if self.model else f"provider={self.provider}"
        return self.model if self.pool is None else f"pool={name_of(self.pool)}"


class Fallback(msgspec.Struct, frozen=True, kw_only=True):
    """When the requests of a route or pool go elsewhere, and where to."""

    next: tuple[Next, ...]
    reasons: frozenset[str]
    """As in `api.fallbacks`."""
    statuses: frozenset[int] = frozenset()
    """Statuses of responses that are a reason, besides those of `error`."""
    after_s: float = 5.0
    """How long a request waits for a saturated pool before."""
    first_token_s: float | None = None
    """With the reason `slo`: when the first token is due."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints that serve the same model, and how to reach them."""

    key: ObjectRef
    """The object that it was translated from."""
    endpoints: tuple[Endpoint, ...] = ()
    model: str | None = None
    """The model name sent to the endpoints; None keeps the request's."""
    engine: str = "vLLM"
    """The engine of the endpoints, as in `inferenceEngine`."""
    scheduling_profile: str = ""
    """The profile or policy that picks its endpoints; empty for the default of all pools."""
    labels: Mapping[Endpoint, Mapping[str, str]] = {}
    """Labels of the endpoints' Pods."""
    metrics_pages: Mapping[Endpoint, MetricsPage] = {}
    """For endpoints whose Pods specify it."""
    kv_events: Mapping[Endpoint, KvEvents] = {}
    """For endpoints that publish KV events."""
    weights: Mapping[Endpoint, float] = {}
    """Shares of the requests that its endpoints should get, relative to each other; empty if nobody has given
    any."""
    phases: PrefillDecode | None = None
    """None if every endpoint serves whole requests."""
    tls: Tls | None = None
    """How to verify the endpoints; None for plain HTTP."""
    http2: bool = False
    """Whether the endpoints speak HTTP/2 with prior knowledge; otherwise HTTP/1.1."""
    objectives: Mapping[str, int] = {}
    """Priorities of requests by the name of their objective."""
    rewrites: Rewrites | None = None
    """None if requests keep their model names."""
    fault: str = ""
    """Why it has no endpoints, whatever Pods there are; empty if it may have some."""
    start: Start | None = None
    """None unless it may be scaled to zero."""
    picker: Picker | None = None
    """None if the gateway picks its endpoints whatever way requests come."""
    timeout_s: float | None = None
    """Timeout of an attempt until its response headers; None is unlimited."""
    attempts: int | None = None
    """Retries of a failed request; None uses the gateway's setting."""
    retry_interval_s: float = 0.0
    fallback: Fallback | None = None
    """For requests whose route has none; None if there is nothing else to go to."""
    is_outside: bool = False
    """Whether it is an external provider, which gets nothing of a request but its body."""

    @property
    def name(self) -> str:
        """The name in metrics and logs."""
        return name_of(self.key)

    @property
    def answering(self) -> tuple[Endpoint, ...]:
        """The endpoints that respond to clients: all except those that only prefill."""
        if self.phases is None:
            return self.endpoints
        roles = self.phases.roles
        return tuple(endpoint for endpoint in self.endpoints if roles[endpoint].decodes)


class Target(msgspec.Struct, frozen=True):
    """A share of a rule's requests, relative to the weights of its other targets."""

    pool: ObjectRef
    weight: int
    model: str = ""
    """The model name sent to the endpoints; empty for the pool's, or the request's."""


_WEIGHT = operator.attrgetter("weight")


class Rule(msgspec.Struct, frozen=True):
    """The targets of requests that match the pattern; without a pattern, all match."""

    name: str
    pattern: RequestPattern | None
    targets: tuple[Target, ...]

    @property
    def has_weight(self) -> bool:
        """Whether any target has a weight."""
        return any(map(_WEIGHT, self.targets))


class TokenLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per unit of time for all requests of a route together; None is unlimited."""

    input: int | None = None
    output: int | None = None
    unit: str
    unit_s: int
    redis_address: str | None = None
    """host:port of the Redis that counts for all gateways together; None if each counts for itself."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for one or more model names, in order."""

    key: ObjectRef
    """The object that it was translated from."""
    name: str
    """The name in logs and metrics: `name_of` the key."""
    model: str | None
    adapters: tuple[str, ...]
    rules: tuple[Rule, ...]
    priority: int = 0
    """Priority of requests without an objective."""
    is_reserved: bool = False
    """Whether its name is taken although no target serves it."""
    takes_unknown: bool = False
    """Whether it takes all names without a route."""
    limits: TokenLimits | None = None
    """None if it has no token limits."""
    fallback: Fallback | None = None
    """None if its requests are served by its targets, or not at all."""
    uid: str = ""
    """Of the object: one that is deleted and recreated is another."""
    created: str = ""
    """RFC 3339; the oldest of several routes for a name comes first."""


class Match(msgspec.Struct, frozen=True):
    """The route and rule of a request, and whether its model is the name of an adapter."""

    route: Route
    rule: Rule
    is_adapter: bool

    @property
    def is_final(self) -> bool:
        """Whether no further route is tried: a rule without weights serves nobody, but may reserve a name."""
        return self.rule.has_weight or self.route.is_reserved


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The complete routing state at one moment."""

    models: Mapping[str, tuple[Route, ...]] = {}
    """Routes by model name, oldest first."""
    adapters: Mapping[str, tuple[Route, ...]] = {}
    """Routes by adapter name; used only if `models` lacks the name."""
    unknown: tuple[Route, ...] = ()
    """Routes for all other names; the first with a matching rule serves."""
    pools: Mapping[ObjectRef, Pool] = {}
    problems: tuple[Problem, ...] = ()

    def routes(self) -> list[Route]:
        """Every route; one with several names appears several times."""
        named = [*self.models.values(), *self.adapters.values(), self.unknown]
        return list(itertools.chain.from_iterable(named))

    def names(self) -> list[str]:
        """Every model and adapter name that has a route, sorted."""
        return sorted(self.models.keys() | self.adapters.keys())

    def first(self, name: str) -> Route | None:
        """The first route for a name; None if no route has the name."""
        routes = self.models.get(name) or self.adapters.get(name)
        return routes[0] if routes else None


EMPTY = Snapshot()


class Step(msgspec.Struct, frozen=True):
    """What may differ from one snapshot to the next."""

    before: Snapshot
    after: Snapshot
    names: frozenset[str]
    """Model and adapter names."""
    pools: frozenset[ObjectRef]


class Difference(msgspec.Struct, frozen=True):
    """What differs between two snapshots. Snapshots share unchanged parts, so this costs one comparison per
    name; or, with the step from one to the other, per name in the step."""

    names: frozenset[str]
    """Model and adapter names whose routes may differ; all others have the same ones."""
    left: tuple[Route, ...]
    """Routes of these names, and for unknown names, that only the first snapshot has."""
    came: tuple[Route, ...]
    """Routes that only the second snapshot has; an edited one is in both."""
    pools: frozenset[ObjectRef]
    """Pools that differ, or are in only one of the two."""

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot, step: Step | None = None) -> Difference:
        """A step between other snapshots is ignored."""
        if step is not None and step.before is before and step.after is after:
            names, pools = step.names, step.pools
        else:
            models = _differing(before.models, after.models)
            names = frozenset(models + _differing(before.adapters, after.adapters))
            pools = frozenset(_differing(before.pools, after.pools))
        lost, gained = _routes(before, names), _routes(after, names)
        return cls(
            names,
            tuple(route for key, route in lost.items() if key not in gained),
            tuple(route for key, route in gained.items() if key not in lost),
            pools,
        )


def _differing(before: Mapping[Key, object], after: Mapping[Key, object]) -> list[Key]:
    if before is after:
        return []
    if len(before) == len(after) and all(map(operator.is_, before, after)):
        # One is a copy of the other with other values: of tens of thousands, one may differ.
        return list(itertools.compress(after, map(operator.is_not, before.values(), after.values())))
    changed = [key for key, value in after.items() if before.get(key) is not value]
    if len(after) - len(changed) < len(before):  # otherwise every key of `before` has its value in `after`
        changed += before.keys() - after.keys()
    return changed


def _routes(snapshot: Snapshot, names: Collection[str]) -> dict[int, Route]:
    """The routes of these names, by their identity."""
    named = [snapshot.models.get(name, ()) for name in names]
    named += [snapshot.adapters.get(name, ()) for name in names]
    return {id(route): route for routes in (*named, snapshot.unknown) for route in routes}
