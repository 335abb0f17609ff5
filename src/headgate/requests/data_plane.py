"""What all requests of one gateway share: the snapshot, the fleet, what was learned of requests."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from headgate import fleet, routing, scheduling
from headgate.api import ObjectRef
from headgate.fleet import LearnedSizes
from headgate.fleet.prefix import PrefixIndex, hashing
from headgate.flow.limits import RouteLimits
from headgate.requests.client import ClientRequest
from headgate.requests.destinations import Destination
from headgate.requests.health import Health
from headgate.requests.observer import Engines, Observer
from headgate.requests.paths import Paths
from headgate.requests.policies import Policies
from headgate.requests.pool_state import PoolState
from headgate.requests.providers import Known, Providers
from headgate.requests.queue import WaitingForEndpoints
from headgate.requests.refusal import Refusal
from headgate.requests.routes import Routes
from headgate.requests.rules import Rules
from headgate.requests.traffic import PoolTraffic


class PoolPolicies(Protocol):
    """Which policy picks the endpoints of each pool."""

    @property
    def decoding(self) -> scheduling.Policy:
        """Picks the decoding endpoint if prefill is separate and the policy of the pool does not."""
        ...

    def of(self, pool: routing.Pool) -> scheduling.Policy: ...
    def shown(self, pools: Iterable[tuple[routing.Pool, scheduling.Policy]]) -> dict[str, Any]:
        """For the admin page: what is in effect."""
        ...


class Memory(Protocol):
    """Bounds what the bodies of all requests hold together."""

    def refuse_two(self, request: ClientRequest, size: int) -> Refusal | None:
        """Counts two bodies of this size besides the client's own; returns why that is too much, if it is."""
        ...


class Change(NamedTuple):
    """What follows from a new snapshot."""

    snapshot: routing.Snapshot
    difference: routing.Difference
    is_anew: bool
    """Whether all is made anew, as nothing was there or taking one up failed."""
    limits_left: bool
    """Whether limits of routes may be gone."""

    @property
    def pools(self) -> bool:
        """Whether any pool differs."""
        return self.is_anew or bool(self.difference.pools)


class DataPlane:
    """Owned by a shell, and handed to each request. Reads no clock: who calls says what time it is."""

    def __init__(
        self,
        rules: Rules,
        rng: random.Random,
        observer: Observer,
        engines: Engines,
        *,
        ledger: fleet.Ledger | None = None,
        prefixes: PrefixIndex | None = None,
        policies: PoolPolicies | None = None,
        limits: RouteLimits | None = None,
        paths: Paths | None = None,
        memory: Memory | None = None,
        phase: float = 0.0,
    ) -> None:
        """`phase` is which part of their rounds the weighted splits begin after."""
        self.rules = rules
        self.rng = rng
        self.observer = observer
        self.engines = engines
        self.paths = paths or Paths()
        self.memory = memory
        self.routes = Routes(limits or RouteLimits(), phase)
        self.is_ready = False
        self.pools: dict[ObjectRef, PoolState] = {}
        self.ledger = ledger or fleet.Ledger(fleet.EjectionPolicy())
        self.health = Health(observer, engines)
        self.sizes = LearnedSizes()
        self.prefixes = prefixes if prefixes is not None else new_prefixes()
        """What the caches of all endpoints are believed to hold."""
        self.policies: PoolPolicies = policies or Policies(rules, self.prefixes)

    @property
    def snapshot(self) -> routing.Snapshot:
        """The objects that requests go by."""
        return self.routes.snapshot

    @property
    def destinations(self) -> dict[str, Destination]:
        """Of each model whose requests all go to one pool."""
        return self.routes.destinations

    @property
    def providers(self) -> Providers:
        """Where requests may go outside of the fleet."""
        return self.routes.providers

    @property
    def splits(self) -> routing.Splits:
        """Which target of a weighted rule is next."""
        return self.routes.splits

    @property
    def believes_objectives(self) -> bool:
        return self.rules.believes_objectives

    def change(self, rules: Rules) -> None:
        """Goes on by other rules. Pools keep their policies, and what those remember, unless they are to be
        others."""
        before, self.rules = self.rules, rules
        if (before.policy, before.plan, before.allow_experimental_plugins) == (
            rules.policy,
            rules.plan,
            rules.allow_experimental_plugins,
        ):
            return
        self.policies = Policies(rules, self.prefixes)
        for pool in (*self.pools.values(), *self.providers.pools()):
            pool.policy = self.policies.of(pool.pool)

    def use(
        self,
        snapshot: routing.Snapshot,
        now: float,
        step: routing.Step | None = None,
        follow: Callable[[Change], None] | None = None,
    ) -> None:
        """Takes a new snapshot; requests under way go on with the pool that they have.

        Costs as much as what differs from the snapshot before, which is looked for unless `step` says it.
        `follow` does what the shell has to do besides; if it fails, the next snapshot is taken as a whole.
        """
        is_anew = self.routes.begin()
        difference = routing.Difference.between(routing.EMPTY if is_anew else self.snapshot, snapshot, step)
        if is_anew or difference.pools:
            known = {} if is_anew else self.pools
            self.pools = {
                key: known[key]
                if key in known and key not in difference.pools
                else self._pool_state(pool, now)
                for key, pool in snapshot.pools.items()
            }
        limits_left = self.routes.take(snapshot, difference, self.pools, now, is_anew=is_anew)
        if is_anew or difference.pools:
            self._keep_endpoints(snapshot)
        if follow is not None:
            follow(Change(snapshot, difference, is_anew, limits_left))
        self.routes.use(snapshot)

    def _keep_endpoints(self, snapshot: routing.Snapshot) -> None:
        pools = (*snapshot.pools.values(), *(state.pool for state in self.providers.pools()))
        for load in self.ledger.keep(itertools.chain.from_iterable(pool.endpoints for pool in pools)):
            self.prefixes.remove(load)

    def use_providers(
        self, providers: Iterable[routing.Provider], troubles: Mapping[str, str], now: float
    ) -> bool:
        """Take the external providers of the settings, and why some of them cannot be used; returns whether a
        limit may be unused now. Those that cannot be used keep their limits, with what is left of them."""
        known, made = self.providers, {}
        listed = list(providers)
        for provider in listed:
            if provider.name in troubles:
                continue
            before = known.by_name.get(provider.name)
            if before is not None and before.provider == provider:
                made[provider.name] = before
            else:
                made[provider.name] = Known(
                    provider, provider.route(), self._pool_state(provider.pool(), now)
                )
        known.use(made, troubles, listed)
        self._keep_endpoints(self.snapshot)
        limited = [each.route() for each in listed if each.limits is not None]
        return self.routes.limits.use_providers(limited, now)

    def problems(self) -> tuple[routing.Problem, ...]:
        """What will not do what the authors of objects intended."""
        return self.snapshot.problems + self.providers.problems(self.snapshot)

    def present(self, key: ObjectRef) -> PoolState | None:
        """A pool, or an external provider, as it is now; None if it is gone."""
        return self.pools.get(key) or self.providers.pool(key)

    def use_pool(self, pool: routing.Pool, now: float) -> PoolState:
        """Takes one pool by itself, for a shell whose requests come decided."""
        state = self.pools[pool.key] = self._pool_state(pool, now)
        return state

    def _pool_state(self, pool: routing.Pool, now: float) -> PoolState:
        """Its savings for retries and what was learned of it stay, however often the pool changes."""
        known = self.present(pool.key)
        decoding = self.policies.decoding
        if known is None:
            budget, policy = fleet.RetryBudget(now), self.policies.of(pool)
            return PoolState(pool, self.ledger, budget, policy, decoding, traffic=PoolTraffic(now))
        is_as_before = known.pool.scheduling_profile == pool.scheduling_profile and bool(
            known.pool.weights
        ) == bool(pool.weights)
        policy = known.policy if is_as_before else self.policies.of(pool)
        learned = known.rates, known.evidence, known.traffic
        return PoolState(pool, self.ledger, known.budget, policy, decoding, *learned)

    def waiting_for_endpoints(self) -> dict[ObjectRef, WaitingForEndpoints]:
        """The pools that requests want and that have no endpoints."""
        queues = {key: pool.queue for key, pool in self.pools.items() if pool.queue is not None}
        waiting = {key: queue.waiting_for_endpoints for key, queue in queues.items()}
        return {key: each for key, each in waiting.items() if each is not None}

    # -- who is asked

    def candidates(
        self, pool: PoolState, tried: Sequence[fleet.EndpointState], now: float
    ) -> Sequence[fleet.EndpointState]:
        """The endpoints of a pool that may get a request now and respond to it."""
        loads = pool.loads if pool.pairs is None else pool.pairs.decode
        return scheduling.candidates(loads, now, self.rng, tried, self.rules.max_requests)

    def pick(
        self, pool: PoolState, request: scheduling.Request, tried: Sequence[fleet.EndpointState], now: float
    ) -> scheduling.Choice | None:
        """Where the pool's policy sends a request; None if there is nobody to be asked."""
        most = self.rules.max_requests
        choice = scheduling.pick(pool.policy, request, pool.loads, now, self.rng, tried, most)
        if choice is not None and self.rules.notes_scores:
            choice.scores = pool.policy.scores(request, self.candidates(pool, tried, now), now)
        return choice

    def refused(
        self, pool: PoolState, request: scheduling.Request, tried: Sequence[fleet.EndpointState], now: float
    ) -> scheduling.Refused | None:
        """Why the pool's policy picked nobody; None if there is nobody to be asked."""
        asked = self.candidates(pool, tried, now)
        return pool.policy.refusal(request, asked, now) if asked else None

    def retries(self, pool: PoolState) -> int:
        attempts = pool.pool.attempts
        return self.rules.retries if attempts is None else attempts

    def take_retry(self, pool: PoolState, now: float, reserved: float = 0.0) -> bool:
        """Spends a retry of the pool's budget, or says that there is none beyond the reserved part."""
        granted = pool.budget.take(now, reserved)
        self.observer.retry(pool, granted)
        return granted

    # -- what is heard of endpoints

    def connected(self, pool: PoolState, took_s: float) -> None:
        """A new connection to an endpoint of a pool was made."""
        self.observer.connected(pool, took_s)
        pool.evidence.connects.note(took_s)

    def engine_restarted(self, load: fleet.EndpointState) -> None:
        """What its cache held is gone, and so are the adapters that it had loaded."""
        load.models.clear()
        self.prefixes.forget(load)

    def sweep(self, now: float) -> None:
        """Called about once a second, behind the sweeps of requests."""
        for pool in self.pools.values():
            for load in fleet.hung(pool.loads, now):
                self.health.hangs(pool, load, now)
        self.prefixes.sweep(now)
        for pool in (*self.pools.values(), *self.providers.pools()):
            pool.traffic.sweep(now)
            pool.limit(self.prefixes, self.sizes.prompts)
            pool.note_adapters()

    def begin_sweep(self, now: float) -> None:
        """Called before the sweeps of requests, which count endpoints that hang anew."""
        self.health.begin_sweep(now)
        for load in self.ledger.loads():
            load.sweep(now)


def new_prefixes() -> PrefixIndex:
    """An index for prompts that are hashed in the usual blocks."""
    return PrefixIndex(block_ends=hashing.BLOCK_ENDS)
