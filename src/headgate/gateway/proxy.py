"""What all connections of one gateway process share: the snapshot, the fleet, the metrics, the limits."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

from headgate import fleet, observe, routing, scheduling
from headgate.api import ObjectRef
from headgate.fleet import AnswerSizes, PromptSizes
from headgate.fleet.prefix import PrefixIndex, hashing
from headgate.flow.limits import RouteLimits
from headgate.gateway import large_reader, limits, local, trace, trust
from headgate.gateway.bodies import BodyMemory
from headgate.gateway.connections import Connections, EndpointConnections, Reached
from headgate.gateway.health import Health, ejection_policy
from headgate.gateway.inflating import Inflating
from headgate.gateway.listener import ClientConnection
from headgate.gateway.policy import ClientPolicy
from headgate.gateway.prefill import Prefill
from headgate.gateway.queueing import Queues
from headgate.gateway.recorder import Recorder
from headgate.gateway.request import Request
from headgate.gateway.rules import observe_settings, quota_settings, rules_of
from headgate.gateway.settings import GatewaySettings
from headgate.loop_turns import Closings, Turns
from headgate.observe.kv_events import KvEventSources
from headgate.observe.scraper import Scraper
from headgate.quota.sources import Sources
from headgate.quota.transport import Transport
from headgate.requests import paths
from headgate.requests.destinations import Destination, destinations
from headgate.requests.destinations import changed as changed_destinations
from headgate.requests.policies import Policies
from headgate.requests.pool_state import PoolState

log = logging.getLogger(__name__)

SWEEP_INTERVAL_S = 1.0
MAX_TURNED_AWAY = 64


class Proxy:
    """The state of the data path. Lives on one event loop; `close` ends everything it started."""

    def __init__(
        self,
        settings: GatewaySettings,
        recorder: Recorder,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random | None = None,
        phase: float | None = None,
        accounts: Transport | None = None,
    ) -> None:
        """`phase` is which part of their rounds the weighted splits begin after; None for any. `accounts` are
        those of limits that are counted in no Redis, where other processes count as well."""
        self.settings = settings
        self.policy = ClientPolicy(settings)
        self.recorder = recorder
        self.loop = loop
        self.now = loop.time
        self.clients: set[ClientConnection] = set()
        self.client_count = limits.ClientCount(settings)
        self._unused: limits.Unused[ClientConnection] = limits.Unused()
        self.bodies = BodyMemory(settings.clients.max_bodies_bytes, settings.clients.max_body_bytes)
        self.uploads = Turns(loop)
        self.downloads = Turns(loop)
        self.closings = Closings(loop)
        self._turned_away: set[ClientConnection] = set()
        self.large_bodies = large_reader.Reader(loop)
        self.left_prefills: set[Prefill] = set()
        """Those whose request is over before they are."""
        self._client_left = asyncio.Event()
        self.snapshot = routing.EMPTY
        self._is_torn = True
        """Whether what follows from the snapshot has to be made anew: nothing is, or taking one up failed."""
        self.snapshots_taken = 0
        self.snapshot_at = 0.0
        """When the last snapshot was taken up, in seconds since 1970."""
        self.models = local.ModelList()
        self.rng = rng or random.Random()  # noqa: S311 - breaks ties, keeps no secret
        self.limit_sources = Sources(quota_settings(settings), loop, self.rng, accounts)
        self.token_limits = RouteLimits(self.limit_sources.make)
        self.pools: dict[ObjectRef, PoolState] = {}
        self.destinations: dict[str, Destination] = {}
        self.ledger = fleet.Ledger(ejection_policy(settings))
        self.prompt_sizes = PromptSizes()
        self.answer_sizes = AnswerSizes()
        self.prefixes = PrefixIndex(block_ends=hashing.BLOCK_ENDS)
        """What the caches of all endpoints are believed to hold."""
        self.policies = Policies(rules_of(settings), self.prefixes)
        self.is_ready = False
        self.stopping = False
        """Whether readiness says no, for good."""
        self.leaving = False
        """Whether connections end with their next answer, which says so: what their client sends next must
        not cross with the close."""
        self.draining = False
        """Whether connections without a request are closed."""
        self.splits = routing.Splits(self.rng.random() if phase is None else phase)
        self._connections = Connections(settings, self.uploads, self.downloads)
        self._tasks: set[asyncio.Task[None]] = set()
        self._id_prefix = os.urandom(6).hex().encode() + b"-"
        self._id_count = 0
        self.queues = Queues(self)
        process = observe.Process(
            loop=loop,
            clock=lambda: self.now(),
            rng=self.rng,
            spawn=self.spawn,
            connector=self._connections,
        )
        listener = observe.Listener(
            heard=self.queues.learned,
            restarted=self.engine_restarted,
            is_waited_for=self.queues.waits_for,
        )
        self.scraper = Scraper(observe_settings(settings), process, self.ledger, listener)
        self.health = Health(recorder, self.scraper)
        self.kv_events = KvEventSources(process, self.ledger, self.prefixes)
        self.inflating = Inflating()
        self._sweeper = loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    def change(self, settings: GatewaySettings) -> None:
        """Goes on by other settings, for open connections too; their requests are not disturbed."""
        before, self.settings = self.settings, settings
        self.policy = ClientPolicy(settings)
        self.client_count.change(settings)
        self.bodies.change(settings.clients.max_bodies_bytes, settings.clients.max_body_bytes)
        self.limit_sources.change(quota_settings(settings))
        self.ledger.change(ejection_policy(settings))
        self._connections.change(settings)
        for client in self.clients:
            client.change(settings)
        self._change_policies(before, settings)
        self.queues.change(before, settings)
        self.scraper.change(observe_settings(settings))

    def _change_policies(self, before: GatewaySettings, settings: GatewaySettings) -> None:
        """Pools keep their policies, and what those remember, unless they are to be others."""
        if before.scheduling == settings.scheduling:
            return
        self.policies = Policies(rules_of(settings), self.prefixes)
        for pool in self.pools.values():
            pool.policy = self.policies.of(pool.pool)

    def use(self, snapshot: routing.Snapshot, step: routing.Step | None = None) -> None:
        """Takes a new snapshot; requests under way go on with the pool that they have.

        Costs as much as what differs from the snapshot before, which is looked for unless `step` says it.
        """
        is_anew, self._is_torn = self._is_torn, True
        difference = routing.Difference.between(routing.EMPTY if is_anew else self.snapshot, snapshot, step)
        if is_anew or difference.pools:
            known = {} if is_anew else self.pools
            self.pools = {
                key: known[key] if key in known and key not in difference.pools else self._pool_state(pool)
                for key, pool in snapshot.pools.items()
            }
        self._use_routes(snapshot, difference, is_anew=is_anew)
        self.snapshot = snapshot
        if is_anew or difference.pools:
            self._use_pools()
        self.recorder.use(snapshot, difference, is_anew=is_anew)
        self._is_torn = False
        self.snapshots_taken += 1
        self.snapshot_at = time.time()

    def _use_routes(
        self, snapshot: routing.Snapshot, difference: routing.Difference, *, is_anew: bool
    ) -> None:
        is_known = not is_anew and self.pools.keys() == self.snapshot.pools.keys()
        if is_known:
            self.destinations = changed_destinations(self.destinations, snapshot, self.pools, difference)
        else:
            self.destinations = destinations(snapshot, self.pools)
        if is_anew:
            self.models = local.ModelList()
            self.token_limits.use(snapshot.routes(), self.now())
            is_less = True
        else:
            gone = {route.key for route in difference.left} - {route.key for route in difference.came}
            is_less = self.token_limits.change(gone, difference.came, self.now())
        self.models.change(difference.names, snapshot)
        if is_less:
            self.limit_sources.keep(self.token_limits.by_route.values())
        self.splits.change(difference.left, difference.came)

    def _use_pools(self) -> None:
        reached = {
            Reached(endpoint, pool.pool.tls, pool.pool.http2)
            for pool in self.pools.values()
            for endpoint in pool.pool.endpoints
        }
        for load in self.ledger.keep(each.endpoint for each in reached):
            self.prefixes.remove(load)
        self._connections.keep(reached)
        self.queues.use()
        pools = [each.pool for each in self.pools.values()]
        self.scraper.use(pools)
        self.kv_events.use(pools)

    def _pool_state(self, pool: routing.Pool) -> PoolState:
        """Its savings for retries and what was learned of it stay, however often the pool changes."""
        known = self.pools.get(pool.key)
        if known is None:
            budget, policy = fleet.RetryBudget(self.now()), self.policies.of(pool)
            return PoolState(pool, self.ledger, budget, policy, self.policies.decoding)
        is_as_before = known.pool.scheduling_profile == pool.scheduling_profile
        policy = known.policy if is_as_before else self.policies.of(pool)
        decoding = self.policies.decoding
        return PoolState(pool, self.ledger, known.budget, policy, decoding, known.rates, known.evidence)

    @property
    def paths(self) -> paths.Paths:
        return self.policy.paths

    @property
    def believes_objectives(self) -> bool:
        return trust.believes(self.settings.queue.objectives_from, is_trusted=False)

    def candidates(
        self, pool: PoolState, tried: Sequence[fleet.EndpointState]
    ) -> Sequence[fleet.EndpointState]:
        """The endpoints of a pool that a request may be sent to now."""
        most = self.settings.endpoints.max_connections
        loads = pool.loads if pool.pairs is None else pool.pairs.decode
        return scheduling.candidates(loads, self.now(), self.rng, tried, most)

    def pick(
        self, pool: PoolState, request: scheduling.Request, tried: Sequence[fleet.EndpointState], now: float
    ) -> scheduling.Choice | None:
        """Where the pool's policy sends a request; None if there is nobody to be asked."""
        most = self.settings.endpoints.max_connections
        return scheduling.pick(pool.policy, request, pool.loads, now, self.rng, tried, most)

    def pick_pair(
        self,
        pool: PoolState,
        request: scheduling.Request,
        terms: scheduling.Terms,
        tried: Sequence[fleet.EndpointState],
        tried_prefill: Sequence[fleet.EndpointState],
    ) -> scheduling.Pair | None:
        """Who prefills and who answers, in a pool where these are apart; None if there is nobody."""
        assert pool.pairs is not None
        most = self.settings.endpoints.max_connections
        return scheduling.pick_pair(
            pool.policy,
            pool.decoding,
            request,
            pool.pairs,
            terms,
            self.now(),
            self.rng,
            tried,
            tried_prefill,
            most,
        )

    def pick_again(
        self, pool: PoolState, pair: scheduling.Pair, tried: Sequence[fleet.EndpointState]
    ) -> scheduling.Pair | None:
        """Another to answer what is prefilled already; None if there is nobody."""
        assert pool.pairs is not None
        most = self.settings.endpoints.max_connections
        return scheduling.pick_again(pool.decoding, pair, pool.pairs, self.now(), self.rng, tried, most)

    def refused(
        self, pool: PoolState, request: scheduling.Request, tried: Sequence[fleet.EndpointState]
    ) -> scheduling.Refused | None:
        """Why the pool's policy picked nobody; None if there is nobody to be asked."""
        asked = self.candidates(pool, tried)
        return pool.policy.refusal(request, asked, self.now()) if asked else None

    def connections(self, pool: PoolState, load: fleet.EndpointState) -> EndpointConnections:
        connections: EndpointConnections | None = pool.connections.get(load)
        if connections is None:
            reached = Reached(load.endpoint, pool.pool.tls, pool.pool.http2)
            connections = pool.connections[load] = self._connections.to(reached)
        return connections

    def all_connections(self) -> list[EndpointConnections]:
        """Those to all endpoints that were picked and are still known."""
        return self._connections.all()

    def tls_context(self, verified: routing.Tls, *, http2: bool = False) -> ssl.SSLContext:
        """What connections to endpoints are made with that are verified like this. Raises SSLError."""
        return self._connections.tls_context(verified, http2=http2)

    def engine_restarted(self, load: fleet.EndpointState) -> None:
        """What its cache held is gone, and so are the adapters that it had loaded."""
        load.restarted()
        self.prefixes.forget(load)

    def retries(self, pool: PoolState) -> int:
        attempts = pool.pool.attempts
        return self.settings.endpoints.retries if attempts is None else attempts

    def take_retry(self, pool: PoolState, reserved: float = 0.0) -> bool:
        """Spends a retry of the pool's budget, or says that there is none beyond the reserved part."""
        granted = pool.budget.take(self.now(), reserved)
        self.recorder.retry(pool, granted)
        return granted

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts work that may outlast the caller; `close` cancels what is left."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def new_request_id(self) -> bytes:
        """Unique over all gateways: random for the process, then counted."""
        self._id_count += 1
        return self._id_prefix + b"%x" % self._id_count

    def begin_trace(self, request: Request) -> None:
        """Begins a trace for its share of the requests that have none."""
        if not trace.trace_id(request.traceparent) and self.rng.random() < self.settings.tracing.sample_ratio:
            request.begin_trace(trace.begin(self.rng))

    def _sweep(self) -> None:
        self._sweeper = self.loop.call_later(SWEEP_INTERVAL_S, self._sweep)
        now = self.now()
        self.health.begin_sweep(now)
        for load in self.ledger.loads():
            load.sweep(now)
        for client in (*self.clients, *self._turned_away):
            client.sweep(now)
        for pool in self.pools.values():
            for load in fleet.hung(pool.loads, now):
                self.health.hangs(pool, load, now)
        self.prefixes.sweep(now)
        for pool in self.pools.values():
            pool.limit(self.prefixes, self.prompt_sizes)
            pool.note_adapters()
        self.scraper.sweep()
        self.kv_events.sweep(now)
        self.queues.sweep()
        for source in self.limit_sources.unused():
            self.spawn(source.close())
        self._connections.sweep()

    def leave(self) -> None:
        """Says that it is not ready, and ends connections with their next answer."""
        self.stopping = self.leaving = True

    async def retire(self, limit_s: float) -> int:
        """Another process serves in this one's place: lets connections end with their next answer, or when
        they have been idle for long, for at most `limit_s` seconds; returns how many did not.
        """
        self.leaving = True
        return await self._until_left(limit_s)

    async def drain(self, limit_s: float) -> int:
        """Lets running requests end for at most `limit_s` seconds; returns how many did not."""
        self.leave()
        self.draining = True
        self.queues.close()
        for client in list(self.clients):
            client.close_if_idle()
        return await self._until_left(limit_s)

    async def _until_left(self, limit_s: float) -> int:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while self.clients:
                    self._client_left.clear()
                    await self._client_left.wait()
        return len(self.clients)

    def client_left(self, client: ClientConnection, counted_as: str) -> None:
        if client in self.clients:
            self.clients.discard(client)
            self.client_count.left(counted_as)
            self._client_left.set()
        else:
            self._turned_away.discard(client)

    def displace_client(self) -> None:
        """Closes a connection that has no request, if there is one, so that another may come in."""
        client = self._unused.next(self.clients, self.now())
        if client is not None:
            self.client_left(client, client.displaced())
            self.recorder.displaced()

    def turned_away(self, client: ClientConnection) -> bool:
        """Says whether a client beyond the limits may stay to hear it: a bounded number of them may."""
        if len(self._turned_away) >= MAX_TURNED_AWAY:
            return False
        self._turned_away.add(client)
        return True

    async def close(self) -> None:
        self._sweeper.cancel()
        self.queues.close()
        for client in (*self.clients, *self._turned_away):
            client.abort()
        self.closings.close_all()
        for prefill in list(self.left_prefills):
            prefill.drop()
        self._connections.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.large_bodies.close()
        await self.limit_sources.close()

    def statistics(self) -> dict[str, Any]:
        return {
            "clients": len(self.clients),
            "bodies": self.bodies.statistics(),
            "ledger": self.ledger.statistics(),
            "prefixes": self.prefixes.statistics() | self.kv_events.exact.statistics(),
            "bytes_per_token": self.prompt_sizes.statistics(),
            "tokens_per_answer": self.answer_sizes.statistics(),
            "connections": self._connections.statistics(),
            "token_limits": self.token_limits.statistics(),
            "inflating": self.inflating.statistics(),
        }
