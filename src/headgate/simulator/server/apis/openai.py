"""OpenAI's completions, of chats and of texts."""

from headgate.simulator.server import bodies
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.instance import Instance


class OpenAI:
    """Handlers for /v1/chat/completions and /v1/completions."""

    def __init__(self, instance: Instance) -> None:
        self._generator = instance.generator

    async def chat(self, exchange: Exchange) -> None:
        self._generator.require_ready()
        await self._generator.answer(exchange, bodies.read_chat(await exchange.read_body()))

    async def completion(self, exchange: Exchange) -> None:
        self._generator.require_ready()
        await self._generator.answer(exchange, bodies.read_completion(await exchange.read_body()))
