"""OpenAI's completions, of chats and of texts, and its Responses."""

from headgate.simulator.server import bodies
from headgate.simulator.server.answers.openai import ChatAnswer, TextAnswer
from headgate.simulator.server.answers.responses import ResponsesAnswer
from headgate.simulator.server.bodies.responses import read_responses
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.instance import Instance
from headgate.simulator.server.rendering import forms


class OpenAI:
    """Handlers for /v1/chat/completions, /v1/completions and /v1/responses."""

    def __init__(self, instance: Instance) -> None:
        self._generator = instance.generator
        self._admit = instance.admit
        self._prompts = instance.prompts

    async def chat(self, exchange: Exchange) -> None:
        await self._admit(exchange)
        generation = await self._prompts.conversation(exchange, bodies.read_chat, forms.of_chat)
        await self._generator.answer(exchange, generation, ChatAnswer)

    async def completion(self, exchange: Exchange) -> None:
        await self._admit(exchange)
        generation = await self._prompts.completion(exchange, bodies.read_completion)
        await self._generator.answer(exchange, generation, TextAnswer)

    async def responses(self, exchange: Exchange) -> None:
        await self._admit(exchange)
        generation = await self._prompts.conversation(exchange, read_responses, forms.of_responses)
        await self._generator.answer(exchange, generation, ResponsesAnswer)
