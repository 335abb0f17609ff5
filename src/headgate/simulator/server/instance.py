"""One simulated server: creates its parts, and ends them in the right order."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

from headgate.simulator.model import RemoteStore
from headgate.simulator.model.tiers import CPU, DISK, GPU, REMOTE
from headgate.simulator.server.adapters import Adapters
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.failures.failures import Failures
from headgate.simulator.server.generator import Generator, Ids
from headgate.simulator.server.kv_transfer import Transfers
from headgate.simulator.server.metrics import MetricsPage, Series
from headgate.simulator.server.metrics.series import counter
from headgate.simulator.server.ranks import Ranks
from headgate.simulator.server.settings import ServerSettings

if TYPE_CHECKING:
    from headgate.simulator.server.kv_events import Publisher


class Instance:
    """State shared by the handlers of all APIs. `running` steps its engines."""

    def __init__(
        self,
        settings: ServerSettings,
        host: str,
        port: int,
        store: RemoteStore | None = None,
    ) -> None:
        self.settings = settings
        self.transfers = Transfers(settings, os.urandom(16).hex(), (settings.side_channel_host or host, port))
        self.adapters = Adapters(settings.lora_modules, settings.models)
        self.ranks = Ranks(settings, self.transfers.protocol.seen, store)
        ids = Ids(settings.id_seed, port)
        self.generator = Generator(settings, self.ranks, self.transfers, self.adapters, ids)
        self.metrics = MetricsPage(
            settings.api, settings.metrics_generation, self.ranks.readings, self._own_series
        )
        self.failures = Failures(
            settings.failures,
            settings.pod_name or "",
            settings.seed,
            self.ranks,
            self.metrics.render,
            self._crash,
        )
        self.generator.tuning = lambda: self.failures.settings
        self.publishers = self._publishers(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Step the engines and serve replays within this context. Raises OSError for addresses in use."""
        with contextlib.ExitStack() as closing:
            for publisher in self.publishers:
                closing.callback(publisher.close)
            for publisher in self.publishers:
                publisher.bind()
            async with contextlib.aclosing(self.transfers), asyncio.TaskGroup() as group:
                tasks = [group.create_task(engine.run()) for engine in self.ranks.engines]
                tasks.append(group.create_task(self.failures.run()))
                tasks += [group.create_task(publisher.serve_replays()) for publisher in self.publishers]
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()

    async def admit(self, exchange: Exchange) -> None:
        """Check applied to every generation request before its body is read."""
        self.generator.require_ready()
        await self.failures.admit(exchange)

    def _crash(self) -> None:
        """The process dies: connections of waiting clients are cut, and all memory is lost."""
        self.ranks.restart()
        self.transfers.side_channel.cut()
        self.transfers.held.clear()
        for publisher in self.publishers:
            publisher.restart()

    def cut(self) -> None:
        """End requests in flight, and those that wait for another engine."""
        self.ranks.cancel_all()
        self.transfers.side_channel.cut()

    def _publishers(self, address: str) -> "list[Publisher]":
        config = self.settings.kv_events
        if config is None or not config.enabled:
            return []
        from headgate.simulator.server.kv_events import Encoder, Publisher

        topic = config.topic.replace("{address}", address).replace("{model}", self.settings.models[0])
        made = []
        for rank, engine in enumerate(self.ranks.engines, self.settings.data_parallel_rank):
            encoder = Encoder(config.form, rank, self.adapters.number)
            made.append(Publisher(config, encoder, topic, rank))
            engine.tell = made[-1].publish
        return made

    def _found_tokens(self) -> dict[str, int]:
        """Cached prompt tokens by the medium of their tier, if there are several tiers."""
        config, now = self.settings.engine, self.ranks.statistics()
        below = (
            (CPU, config.host_kv_blocks, now.host_hits_total),
            (DISK, config.disk_kv_blocks, now.disk_hits_total),
            (REMOTE, config.remote_kv_blocks, now.remote_hits_total),
        )
        found = {medium: tokens for medium, blocks, tokens in below if blocks}
        return {GPU: now.prefix_hits_total, **found} if found else {}

    def _own_series(self) -> Iterator[Series]:
        """Counters of the whole server that no real engine has."""
        protocol = self.transfers.protocol
        for name, documentation, counts in (
            ("headgate_simulator_transfers", "Sides of prefill/decode pairs, and their ends.", protocol.seen),
            ("headgate_simulator_deviations", "Deviations from their protocol.", protocol.deviations),
            ("headgate_simulator_failures", "Requests that were made to fail.", self.failures.injected),
            ("headgate_simulator_cached_tokens", "Prompt tokens found in a cache.", self._found_tokens()),
        ):
            for what, number in counts.items():
                yield counter(name, documentation, number, what=what)
