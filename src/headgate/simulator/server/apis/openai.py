"""OpenAI's completions, of chats and of texts, and its Responses."""

from headgate.simulator.server import bodies
from headgate.simulator.server.answers.openai import ChatAnswer, TextAnswer
from headgate.simulator.server.answers.responses import ResponsesAnswer
from headgate.simulator.server.bodies.responses import read_responses
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.instance import Instance


class OpenAI:
    """Handlers for /v1/chat/completions, /v1/completions and /v1/responses."""

    def __init__(self, instance: Instance) -> None:
        self._generator = instance.generator
        self._admit = instance.admit

    async def chat(self, exchange: Exchange) -> None:
        await self._admit(exchange)
        generation = bodies.read_chat(await exchange.read_body())
        await self._generator.answer(exchange, generation, ChatAnswer)

    async def completion(self, exchange: Exchange) -> None:
        await self._admit(exchange)
        generation = bodies.read_completion(await exchange.read_body())
        await self._generator.answer(exchange, generation, TextAnswer)

    async def responses(self, exchange: Exchange) -> None:
        await self._admit(exchange)
        generation = read_responses(await exchange.read_body())
        await self._generator.answer(exchange, generation, ResponsesAnswer)
