"""Inputs of an explanation: a running gateway, or only objects, and splits that are not advanced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headgate import fleet, routing
from headgate.api import ObjectRef
from headgate.dataplane.settings import Prefill
from headgate.fleet import LearnedSizes
from headgate.fleet.prefix import PrefixIndex
from headgate.flow.limits import RouteLimits
from headgate.requests import paths
from headgate.requests.data_plane import DataPlane
from headgate.requests.destinations import Destination
from headgate.requests.policies import Policies
from headgate.requests.pool_state import PoolState
from headgate.requests.providers import Providers
from headgate.requests.rules import Rules


@dataclass(frozen=True)
class View:
    """Inputs of an explanation."""

    snapshot: routing.Snapshot
    pools: Mapping[ObjectRef, PoolState]
    turns: routing.Splits
    now: float
    max_requests: int
    """Per endpoint."""
    is_live: bool
    is_ready: bool = True
    """Whether the objects are loaded."""
    knows_endpoints: bool = True
    sizes: LearnedSizes = field(default_factory=LearnedSizes)
    token_limits: RouteLimits = field(default_factory=RouteLimits)
    remote_prefill_tokens: int = Prefill().remote_min_tokens
    believes_objectives: bool = True
    """Objects alone do not say which clients a gateway trusts: assume that this one is."""
    paths: paths.Paths = field(default_factory=paths.Paths)
    providers: Providers = field(default_factory=Providers)
    """Objects alone do not say which external providers a gateway has."""

    @classmethod
    def of_plane(cls, plane: DataPlane, now: float) -> View:
        """A gateway as it is now."""
        return cls(
            plane.snapshot,
            plane.pools,
            plane.splits,
            now,
            plane.rules.max_requests,
            is_live=True,
            is_ready=plane.is_ready,
            sizes=plane.sizes,
            token_limits=plane.routes.limits,
            remote_prefill_tokens=plane.rules.remote_min_tokens,
            believes_objectives=plane.believes_objectives,
            paths=plane.paths,
            providers=plane.providers,
        )

    @classmethod
    def of_objects(cls, snapshot: routing.Snapshot, rules: Rules, *, knows_endpoints: bool) -> View:
        """Only objects: a gateway that has just started with them, and has no requests."""
        ledger, budget = fleet.Ledger(), fleet.RetryBudget(0.0)
        policies = Policies(rules, PrefixIndex())
        pools = {
            key: PoolState(pool, ledger, budget, policies.of(pool), policies.decoding)
            for key, pool in snapshot.pools.items()
        }
        limits = RouteLimits()
        limits.use(snapshot.routes(), 0.0)
        return cls(
            snapshot,
            pools,
            routing.Splits(),
            0.0,
            1,
            is_live=False,
            knows_endpoints=knows_endpoints,
            token_limits=limits,
        )


@dataclass(frozen=True)
class Supposing:
    """The surroundings of a decision that peeks at weighted splits, or uses a given target."""

    snapshot: routing.Snapshot
    pools: Mapping[ObjectRef, PoolState]
    turns: routing.Splits
    sizes: LearnedSizes
    is_ready: bool
    paths: paths.Paths
    believes_objectives: bool
    given: routing.Target | None = None
    destinations: Mapping[str, Destination] = field(default_factory=dict)
    """Empty, so that every explanation does the full match."""
    providers: Providers = field(default_factory=Providers)

    @property
    def splits(self) -> Supposing:
        return self

    def next(self, route: ObjectRef, rule: routing.Rule) -> routing.Target | None:
        if self.given in rule.targets:  # the names of an InferenceModelRewrite are targets of a rule as well
            return self.given
        return self.turns.peek(route, rule)
