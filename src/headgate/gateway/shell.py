"""One gateway process: its data plane, its clients, its queues, and its readers of engines."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

from headgate import cluster, fleet, observe, routing
from headgate.dataplane.credentials import tenant_limits
from headgate.dataplane.peering import Peering
from headgate.dataplane.queueing import Queues
from headgate.dataplane.records.recorder import Recorder
from headgate.dataplane.rules import ejection_policy, observe_settings, quota_settings, rules_of
from headgate.dataplane.watching import Watching
from headgate.flow.limits import RouteLimits
from headgate.gateway.clients import Clients
from headgate.gateway.connections import EndpointConnections
from headgate.gateway.gateway_api import Shared
from headgate.gateway.model_list import ModelList
from headgate.gateway.services import Services
from headgate.gateway.settings import GatewaySettings
from headgate.observe.kv_events import KvEventSources
from headgate.observe.scraper import Scraper
from headgate.quota.sources import Sources
from headgate.quota.transport import Transport
from headgate.requests.data_plane import Change, DataPlane, new_prefixes
from headgate.requests.pool_state import PoolState

SWEEP_INTERVAL_S = 1.0


class Shell:
    """Runs on one event loop; `close` ends everything it started."""

    def __init__(
        self,
        settings: GatewaySettings,
        recorder: Recorder,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random | None = None,
        phase: float | None = None,
        accounts: Transport | None = None,
    ) -> None:
        """`phase`: the point in their rounds at which the weighted splits begin; None for a random one.
        `accounts`: for limits that are not counted in Redis but shared with other processes."""
        rng = rng or random.Random()  # noqa: S311 - breaks ties, keeps no secret
        self.services = services = Services(settings, recorder, loop, rng)
        self.clients = Clients(services)
        services.limit_sources = Sources(quota_settings(settings), loop, rng, accounts)
        self._watching = Watching()
        ledger, prefixes = fleet.Ledger(ejection_policy(settings)), new_prefixes()
        self.plane = services.plane = DataPlane(
            rules_of(settings),
            rng,
            recorder.attempts,
            self._watching,
            ledger=ledger,
            prefixes=prefixes,
            limits=RouteLimits(services.limit_sources.make),
            paths=services.policy.paths,
            memory=services.bodies,
            phase=rng.random() if phase is None else phase,
        )
        self.queues = Queues(services)
        self.gateways = Shared(services, self.clients, rng, rng.random() if phase is None else phase)
        process = observe.Process(
            loop=loop,
            clock=lambda: services.now(),
            rng=rng,
            spawn=services.background.spawn,
            connector=services.connections,
        )
        listener = observe.Listener(
            heard=self.queues.learned,
            restarted=self.plane.engine_restarted,
            is_waited_for=self.queues.waits_for,
        )
        self._watching.scraper = Scraper(observe_settings(settings), process, ledger, listener)
        self._watching.kv_events = KvEventSources(process, ledger, prefixes)
        self.peering = Peering(settings.peers, self.plane, self.queues, process.clock, rng)
        self._said = settings
        """The settings, without the shares of tenants."""
        services.providers.changed = self._providers_changed
        self._providers_changed()
        services.credentials.changed = self._credentials_changed
        self._credentials_changed()
        self.snapshots_taken = 0
        self.snapshot_at = 0.0
        """When the last snapshot took effect, in seconds since 1970."""
        self.denied: Callable[[], list[cluster.Denied]] = list
        """Returns the objects that the API server does not let this gateway read."""
        self._sweeper = loop.call_later(SWEEP_INTERVAL_S, self._sweep)

    @property
    def settings(self) -> GatewaySettings:
        return self.services.settings

    @property
    def recorder(self) -> Recorder:
        return self.services.recorder

    def now(self) -> float:
        return self.services.now()

    @property
    def scraper(self) -> Scraper:
        return self._watching.scraper

    @property
    def kv_events(self) -> KvEventSources:
        return self._watching.kv_events

    @property
    def is_ready(self) -> bool:
        """Whether the process accepts requests."""
        return self.services.is_ready

    def change(self, settings: GatewaySettings) -> None:
        """Apply new settings, also to open connections, without disturbing their requests."""
        self._said = settings
        settings = self._with_shares(settings)
        before = self.services.settings
        self.services.change(settings)
        self.clients.change(settings)
        self.services.limit_sources.change(quota_settings(settings))
        self.plane.ledger.change(ejection_policy(settings))
        self.plane.paths = self.services.policy.paths
        self.plane.change(rules_of(settings))
        self.queues.change(before, settings)
        self.scraper.change(observe_settings(settings))
        self.gateways.change(settings)

    def _with_shares(self, settings: GatewaySettings) -> GatewaySettings:
        """Tenants' shares are weights of flows like any other."""
        shares = tenant_limits.weights_of(self.services.credentials.tenants)
        return settings.replace(queue_weights=(*settings.queue.weights, *shares)) if shares else settings

    def _credentials_changed(self) -> None:
        """Keys or tenants have changed: what clients were admitted for may no longer hold."""
        services, limits = self.services, self.plane.routes.limits
        tenants = services.credentials.tenants
        if limits.use_tenants(tenant_limits.routes_of(tenants), self.now()):
            services.limit_sources.keep(limits.by_route.values())
        before, settings = services.settings, self._with_shares(self._said)
        if settings != before:
            services.settings = settings
            self.queues.change(before, settings)
        self.clients.change(settings)

    def _providers_changed(self) -> None:
        """External providers, or their keys, have come, changed or gone."""
        services, found = self.services, self.services.providers
        if self.plane.use_providers(found.listed(), found.troubles, self.now()):
            services.limit_sources.keep(self.plane.routes.limits.by_route.values())
        services.connections.keep([each.pool for each in (*self.plane.pools.values(), *self._outside)])
        services.recorder.use_providers([name for each in found.usable() for name in each.names])

    @property
    def _outside(self) -> list[PoolState]:
        return self.plane.providers.pools()

    def use(self, snapshot: routing.Snapshot, step: routing.Step | None = None) -> None:
        """Use a new snapshot; requests in progress keep their pool."""
        self.plane.use(snapshot, self.now(), step, self._follow)
        self.snapshots_taken += 1
        self.snapshot_at = time.time()

    def _follow(self, change: Change) -> None:
        """Apply a new snapshot to everything besides the data plane."""
        plane, services = self.plane, self.services
        if change.is_anew:
            services.models = ModelList()
        services.models.change(change.difference.names, change.snapshot)
        if change.limits_left:
            services.limit_sources.keep(plane.routes.limits.by_route.values())
        if change.pools:
            pools = [each.pool for each in plane.pools.values()]
            services.connections.keep([*pools, *(each.pool for each in self._outside)])
            self.queues.use()
            self.scraper.use(pools)
            self.kv_events.use(pools)
            self.peering.use()
        services.recorder.use(change.snapshot, change.difference, is_anew=change.is_anew)

    def all_connections(self) -> list[EndpointConnections]:
        """The connections of all endpoints that were picked and are still known."""
        return self.services.connections.all()

    def _sweep(self) -> None:
        services = self.services
        self._sweeper = services.loop.call_later(SWEEP_INTERVAL_S, self._sweep)
        now = self.now()
        self.plane.begin_sweep(now)
        self.clients.sweep(now)
        self.plane.sweep(now)
        self.scraper.sweep()
        self.kv_events.sweep(now)
        self.queues.sweep()
        for source in services.limit_sources.unused():
            services.background.spawn(source.close())
        services.connections.sweep()
        self.gateways.sweep()

    def leave(self) -> None:
        """Report not ready, and close each connection after its next response."""
        self.services.shutdown.is_stopping = self.services.shutdown.is_leaving = True

    async def retire(self, limit_s: float) -> int:
        """Another process has replaced this one: let connections end with their next response, or when they
        have been idle for long, for at most `limit_s` seconds; return how many did not."""
        self.services.shutdown.is_leaving = True
        self.peering.stop()
        return await self.clients.until_left(limit_s)

    async def drain(self, limit_s: float) -> int:
        """Let requests finish for at most `limit_s` seconds; return how many connections remain."""
        self.leave()
        self.services.shutdown.is_draining = True
        self.queues.close()
        self.clients.close_idle()
        return await self.clients.until_left(limit_s)

    async def close(self) -> None:
        self._sweeper.cancel()
        self.queues.close()
        self.clients.abort()
        self.gateways.close()
        await self.services.close()
        await self.services.limit_sources.close()

    def statistics(self) -> dict[str, Any]:
        plane, services = self.plane, self.services
        return {
            "clients": len(self.clients),
            "http2": self.clients.http2.statistics(),
            "handshakes": self.clients.handshakes.statistics(),
            "credentials": services.credentials.statistics(),
            "bodies": services.bodies.statistics(),
            "ledger": plane.ledger.statistics(),
            "prefixes": plane.prefixes.statistics() | self.kv_events.exact.statistics(),
            "bytes_per_token": plane.sizes.prompts.statistics(),
            "tokens_per_answer": plane.sizes.answers.statistics(),
            "peers": self.peering.statistics(),
            "providers": services.providers.statistics(),
            "connections": services.connections.statistics(),
            "token_limits": plane.routes.limits.statistics(),
            "inflating": services.inflating.statistics(),
        }
