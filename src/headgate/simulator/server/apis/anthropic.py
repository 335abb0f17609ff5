"""Anthropic's Messages."""

from headgate.simulator.server.answers.messages import MessagesAnswer
from headgate.simulator.server.bodies.messages import read_counted, read_messages
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.instance import Instance


class Anthropic:
    """Handlers for /v1/messages and /v1/messages/count_tokens."""

    def __init__(self, instance: Instance) -> None:
        self._generator = instance.generator
        self._admit = instance.admit

    async def messages(self, exchange: Exchange) -> None:
        await self._admit(exchange)
        generation = read_messages(await exchange.read_body())
        await self._generator.answer(exchange, generation, MessagesAnswer)

    async def count_tokens(self, exchange: Exchange) -> None:
        counted = read_counted(await exchange.read_body())
        self._generator.require_model(counted.model)
        await exchange.answer_json({"input_tokens": len(counted.prompts[0])})
