"""What operators and load balancers ask: models, health, metrics, version."""

import time
from importlib import metadata

from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.generator import Generator
from headgate.simulator.server.kv_transfer import Transfers
from headgate.simulator.server.metrics import CONTENT_TYPE, MetricsPage
from headgate.simulator.server.settings import ServerSettings


class Operations:
    """Handlers of everything that does not ask for text."""

    def __init__(
        self, settings: ServerSettings, generator: Generator, metrics: MetricsPage, transfers: Transfers
    ) -> None:
        self._settings = settings
        self._generator = generator
        self._metrics = metrics
        self._transfers = transfers
        self._created = int(time.time())

    async def models(self, exchange: Exchange) -> None:
        root = self._settings.models[0]
        cards = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": "headgate",
                "root": root,
                "parent": None,
                "max_model_len": self._settings.engine.max_model_len,
            }
            for name in self._settings.models
        ]
        await exchange.answer_json({"object": "list", "data": cards})

    async def health(self, exchange: Exchange) -> None:
        self._generator.require_ready()
        await exchange.answer(b"")

    async def metrics(self, exchange: Exchange) -> None:
        await exchange.answer(self._metrics.render(), content_type=CONTENT_TYPE)

    async def version(self, exchange: Exchange) -> None:
        await exchange.answer_json({"version": metadata.version("headgate")})

    async def protocol(self, exchange: Exchange) -> None:
        """What was seen of prefill/decode pairs, and what of it was against the protocol."""
        await exchange.answer_json(self._transfers.statistics())
