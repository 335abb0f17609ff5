"""vLLM's two halves of a completion: from text to a request in token ids, and from ids to ids."""

from collections.abc import Iterator, Sequence
from typing import Any

from headgate.simulator.server import bodies
from headgate.simulator.server.answers import Answer
from headgate.simulator.server.answers.token_ids import TokensAnswer
from headgate.simulator.server.bodies.multimodal import features
from headgate.simulator.server.bodies.token_ids import read_generate
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.instance import Instance
from headgate.simulator.server.live import Ticket
from headgate.simulator.server.rendering import forms
from headgate.simulator.server.script import Script


class TokenIds:
    """Handlers for /v1/completions/render, /v1/chat/completions/render and /inference/v1/generate."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def render_chat(self, exchange: Exchange) -> None:
        prompts = self._instance.prompts
        generation = await prompts.conversation(exchange, bodies.read_chat, forms.of_chat)
        self._require_base_model(generation.model)
        (request,) = _rendered(self._id(exchange), generation)
        await exchange.answer_json(request)

    async def render_completion(self, exchange: Exchange) -> None:
        generation = await self._instance.prompts.completion(exchange, bodies.read_completion)
        self._require_base_model(generation.model)
        await exchange.answer_json(list(_rendered(self._id(exchange), generation)))

    async def generate(self, exchange: Exchange) -> None:
        await self._instance.admit(exchange)
        first = self._instance.settings.models[0]
        generation, request_id = read_generate(await exchange.read_body(), first)

        def shape(
            generation: Generation, ticket: Ticket, scripts: Sequence[Script], answer_id: str
        ) -> Answer:
            return TokensAnswer(generation, ticket, scripts, request_id or answer_id)

        await self._instance.generator.answer(exchange, generation, shape)

    def _id(self, exchange: Exchange) -> str:
        return exchange.request_id or self._instance.generator.ids.next()

    def _require_base_model(self, name: str) -> None:
        self._instance.generator.require_model(name)
        if name in self._instance.adapters:
            raise ApiError(400, f"model: {name!r} is an adapter, name its base model", param="model")


def _rendered(request_id: str, generation: Generation) -> Iterator[dict[str, Any]]:
    """For each prompt what /inference/v1/generate takes."""
    for number, prompt in enumerate(generation.prompts):
        yield {
            "request_id": f"{request_id}-{number}" if len(generation.prompts) > 1 else request_id,
            "model": generation.model,
            "token_ids": prompt.tolist(),
            "features": features(generation.items),
            "sampling_params": {
                "max_tokens": generation.max_tokens,
                "min_tokens": generation.min_tokens,
                "ignore_eos": generation.ignore_eos,
                "stop": generation.stop,
                "seed": generation.seed,
                "n": generation.choices_per_prompt,
            },
            "stream": generation.stream,
            "priority": generation.priority,
            "cache_salt": generation.cache_salt or None,
            "cache_hit_threshold": generation.cache_hit_threshold,
            "kv_transfer_params": generation.kv_params,
        }
