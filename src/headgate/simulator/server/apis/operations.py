"""What operators and load balancers ask: models, health, metrics, version, load."""

import time
from importlib import metadata

from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.instance import Instance
from headgate.simulator.server.metrics import CONTENT_TYPE


class Operations:
    """Handlers of what asks for no text and changes nothing."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._created = int(time.time())

    async def models(self, exchange: Exchange) -> None:
        """The served names, then the adapters with the first of these as their parent."""
        models = self._instance.settings.models
        cards = [self._card(name, models[0], None) for name in models]
        for adapter in self._instance.adapters:
            cards.append(self._card(adapter.name, adapter.path, adapter.base_model_name or models[0]))
        await exchange.answer_json({"object": "list", "data": cards})

    async def health(self, exchange: Exchange) -> None:
        self._instance.generator.require_ready()
        self._instance.failures.require_ready()
        await exchange.answer(b"")

    async def metrics(self, exchange: Exchange) -> None:
        page = await self._instance.failures.metrics_page(exchange)
        await exchange.answer(page, content_type=CONTENT_TYPE)

    async def version(self, exchange: Exchange) -> None:
        await exchange.answer_json({"version": metadata.version("headgate")})

    async def load(self, exchange: Exchange) -> None:
        """Requests in the server, as vLLM counts them with --enable-server-load-tracking."""
        now = self._instance.ranks.statistics()
        await exchange.answer_json({"server_load": now.running + now.waiting})

    async def kv_event_sources(self, exchange: Exchange) -> None:
        await exchange.answer_json([publisher.source() for publisher in self._instance.publishers])

    def _card(self, name: str, root: str, parent: str | None) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "headgate",
            "root": root,
            "parent": parent,
            "max_model_len": self._instance.settings.engine.max_model_len,
        }
