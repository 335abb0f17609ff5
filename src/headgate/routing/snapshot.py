"""The internal vocabulary that every dialect is translated into: route, rule, target, pool, endpoint.

A Snapshot is immutable; a request uses the one that it started with.
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


def name_of(ref: ObjectRef) -> str:
    """How metrics and logs name a pool or route: "namespace/name", after its kind where that is none of
    Kthena's, as two kinds may have objects of one name."""
    return str(ref.key) if ref.kind in (MODEL_SERVER, MODEL_ROUTE) else f"{ref.kind}/{ref.key}"


class Endpoint(msgspec.Struct, frozen=True):
    """One server of a model; equal endpoints are the same server.

    `name` is the Pod's "namespace/name"; with "-rank-0" and so on where each of its ports is an endpoint.
    """

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


Connector = Literal["http", "lmcache", "nixl", "mooncake", "sglang"]
"""How the KV cache gets from where a prompt is prefilled to where its answer is generated."""


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """What one endpoint of a pool does where prefill and decode are apart; it may do both."""

    prefills: bool
    decodes: bool
    group: str | None
    """Only endpoints of one group hand caches over to each other; None is in no group."""
    bootstrap_port: int = 8998
    """Where an SGLang server that prefills gives its cache away."""


class PrefillDecode(msgspec.Struct, frozen=True, kw_only=True):
    """How the endpoints of a pool share the two phases of a request."""

    connector: Connector
    roles: Mapping[Endpoint, Role]
    """Of each endpoint of the pool."""
    remote_tokens: int | None = None
    """Prompts with fewer uncached tokens are prefilled where they are decoded; None: the gateway's."""


class MetricsPage(msgspec.Struct, frozen=True, kw_only=True):
    """Where the metrics of an endpoint are, as far as its Pod says so."""

    port: int | None = None
    path: str = ""
    is_https: bool | None = None
    """None where the Pod does not say: on the port that serves it is as that is, on another it is not."""


class KvEvents(msgspec.Struct, frozen=True, kw_only=True):
    """Where an engine publishes what its KV cache holds: ports of the endpoint's host."""

    port: int
    replay_port: int | None = None
    """Where it repeats what was missed; None if it does not."""
    ranks: int = 1
    """How many data-parallel ranks publish, each on a port of its own: the next one up."""


class Pool(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints that serve the same model, and how they are reached."""

    key: ObjectRef
    """The object that it is made of."""
    endpoints: tuple[Endpoint, ...] = ()
    model: str | None = None
    """Name that the endpoints know the model by; None leaves the request's own."""
    engine: str = "vLLM"
    """What the endpoints run, as `inferenceEngine` has it."""
    scheduling_profile: str = ""
    """The profile or policy that picks its endpoints; empty where it is that of all pools."""
    labels: Mapping[Endpoint, Mapping[str, str]] = {}
    """Of the endpoints' Pods."""
    metrics_pages: Mapping[Endpoint, MetricsPage] = {}
    """Of those endpoints whose Pods say where it is."""
    kv_events: Mapping[Endpoint, KvEvents] = {}
    """Of endpoints that publish them."""
    phases: PrefillDecode | None = None
    """None where every endpoint serves whole requests."""
    tls: Tls | None = None
    """How the endpoints are verified; None where they speak plain http."""
    http2: bool = False
    """Whether the endpoints speak HTTP/2 from the first byte; else it is HTTP/1.1."""
    objectives: Mapping[str, int] = {}
    """Priorities that a request may have by the name of an objective."""
    fault: str = ""
    """Why it has no endpoints, whatever Pods there are; empty if it may have."""
    timeout_s: float | None = None
    """How long one attempt may take until its response headers; None is for ever."""
    attempts: int | None = None
    """How often a failed request is tried again; None leaves it to the gateway."""
    retry_interval_s: float = 0.0

    @property
    def name(self) -> str:
        """As metrics and logs have it."""
        return name_of(self.key)

    @property
    def answering(self) -> tuple[Endpoint, ...]:
        """The endpoints that answer clients: all but those that only prefill."""
        if self.phases is None:
            return self.endpoints
        roles = self.phases.roles
        return tuple(endpoint for endpoint in self.endpoints if roles[endpoint].decodes)


class Target(msgspec.Struct, frozen=True):
    """A share of a rule's traffic, relative to the weights beside it."""

    pool: ObjectRef
    weight: int
    model: str = ""
    """What the endpoints are asked for; empty where the pool says it, or the request."""


_WEIGHT = operator.attrgetter("weight")


class Rule(msgspec.Struct, frozen=True):
    """Where requests that fit the pattern go; no pattern fits all."""

    name: str
    pattern: RequestPattern | None
    targets: tuple[Target, ...]

    @property
    def has_weight(self) -> bool:
        """Whether any target gets a share of its requests."""
        return any(map(_WEIGHT, self.targets))


class TokenLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens in each unit of time, of all requests of a route together; None is any number."""

    input: int | None = None
    output: int | None = None
    unit: str
    unit_s: int
    redis_address: str | None = None
    """host:port of the Redis where all gateways count together; None where each counts for itself."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for one or more model names, in order."""

    key: ObjectRef
    """The object that it is made of."""
    name: str
    """As logs and metrics have it: `name_of` the key."""
    model: str | None
    adapters: tuple[str, ...]
    rules: tuple[Rule, ...]
    priority: int = 0
    """Of its requests, where they name no objective."""
    is_reserved: bool = False
    """Whether its name is taken and nobody serves it."""
    takes_unknown: bool = False
    """Whether it is for all names that no other route is for."""
    limits: TokenLimits | None = None
    """None where it may use any number of tokens."""
    uid: str = ""
    """Of the object: one that is deleted and made again is another."""
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
    """Everything that routing knows at one moment."""

    models: Mapping[str, tuple[Route, ...]] = {}
    """Routes by the model name that they are for, oldest first."""
    adapters: Mapping[str, tuple[Route, ...]] = {}
    """Routes by the adapter name that they are for; asked only where `models` has no such name."""
    unknown: tuple[Route, ...] = ()
    """Routes for all other names; the first with a rule that fits serves."""
    pools: Mapping[ObjectRef, Pool] = {}
    problems: tuple[Problem, ...] = ()

    def routes(self) -> list[Route]:
        """Every route; one of several names comes several times."""
        named = [*self.models.values(), *self.adapters.values(), self.unknown]
        return list(itertools.chain.from_iterable(named))

    def names(self) -> list[str]:
        """Every model and adapter name that has a route, sorted."""
        return sorted(self.models.keys() | self.adapters.keys())

    def first(self, name: str) -> Route | None:
        """The route for a name that is asked first; None if none is for it alone."""
        routes = self.models.get(name) or self.adapters.get(name)
        return routes[0] if routes else None


EMPTY = Snapshot()


class Step(msgspec.Struct, frozen=True):
    """From one snapshot to the next: what may differ."""

    before: Snapshot
    after: Snapshot
    names: frozenset[str]
    """Model and adapter names."""
    pools: frozenset[ObjectRef]


class Difference(msgspec.Struct, frozen=True):
    """What differs between two snapshots. Snapshots share what did not change, so this costs one look at
    each name; or, with the step that leads from one to the other, at what the step is about."""

    names: frozenset[str]
    """Model and adapter names whose routes may differ: all others have the same ones."""
    left: tuple[Route, ...]
    """Routes of these names, and for unknown names, that only the first snapshot has."""
    came: tuple[Route, ...]
    """Those that only the second has; one that was edited is in both."""
    pools: frozenset[ObjectRef]
    """Pools that are other ones, or only in one of the two."""

    @classmethod
    def between(cls, before: Snapshot, after: Snapshot, step: Step | None = None) -> Difference:
        """A step between other snapshots counts for nothing."""
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
        # One is a copy of the other, with other values: there may be tens of thousands, of which one differs.
        return list(itertools.compress(after, map(operator.is_not, before.values(), after.values())))
    changed = [key for key, value in after.items() if before.get(key) is not value]
    if len(after) - len(changed) < len(before):  # else every key of `before` has its value in `after`
        changed += before.keys() - after.keys()
    return changed


def _routes(snapshot: Snapshot, names: Collection[str]) -> dict[int, Route]:
    """By identity."""
    named = [snapshot.models.get(name, ()) for name in names]
    named += [snapshot.adapters.get(name, ()) for name in names]
    return {id(route): route for routes in (*named, snapshot.unknown) for route in routes}
