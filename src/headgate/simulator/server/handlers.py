"""Request handlers, by API."""

from __future__ import annotations

import time
from importlib import metadata
from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.simulator.model import ConfigError, detokenize, tokenize
from headgate.simulator.server import bodies
from headgate.simulator.server.answers.messages import MessagesAnswer
from headgate.simulator.server.answers.openai import ChatAnswer, TextAnswer
from headgate.simulator.server.answers.responses import ResponsesAnswer
from headgate.simulator.server.bodies import decode
from headgate.simulator.server.bodies.messages import read_counted, read_messages
from headgate.simulator.server.bodies.prompts import Message, TokenIds, chat_prompt, token_ids
from headgate.simulator.server.bodies.responses import read_responses
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.failures.failures import read_changes
from headgate.simulator.server.instance import Instance
from headgate.simulator.server.metrics import CONTENT_TYPE


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


class TokenizeBody(msgspec.Struct, frozen=True):
    """Either a prompt or messages."""

    model: str | None = None
    prompt: str | None = None
    messages: Annotated[list[Message], Meta(min_length=1)] | None = None
    return_token_strs: bool = False


class DetokenizeBody(msgspec.Struct, frozen=True):
    tokens: TokenIds
    model: str | None = None


_tokenize = msgspec.json.Decoder(TokenizeBody)
_detokenize = msgspec.json.Decoder(DetokenizeBody)


class Tokens:
    """Handlers that convert text to tokens and back."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def tokenize(self, exchange: Exchange) -> None:
        body = decode(_tokenize, await exchange.read_body())
        self._instance.generator.require_model(body.model)
        tokens = chat_prompt(body.messages) if body.messages else tokenize(body.prompt or "")
        strings = [detokenize([token]) for token in tokens] if body.return_token_strs else None
        await exchange.answer_json(
            {
                "count": len(tokens),
                "max_model_len": self._instance.settings.engine.max_model_len,
                "tokens": tokens.tolist(),
                "token_strs": strings,
            }
        )

    async def detokenize(self, exchange: Exchange) -> None:
        body = decode(_detokenize, await exchange.read_body())
        self._instance.generator.require_model(body.model)
        await exchange.answer_json({"prompt": detokenize(token_ids("tokens", body.tokens))})


class Operations:
    """Handlers of read-only endpoints that generate no text."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._created = int(time.time())

    async def models(self, exchange: Exchange) -> None:
        """The served names, then the adapters with the first name as their parent."""
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


class Sleeping:
    """Handlers for /sleep, /wake_up and /is_sleeping. Without sleep mode, they respond but change nothing."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def sleep(self, exchange: Exchange) -> None:
        if self._instance.settings.sleep_mode:
            self._instance.ranks.sleep()
        await exchange.answer(b"")

    async def wake_up(self, exchange: Exchange) -> None:
        self._instance.ranks.asleep = False
        await exchange.answer(b"")

    async def is_sleeping(self, exchange: Exchange) -> None:
        await exchange.answer_json({"is_sleeping": self._instance.ranks.asleep})


class Admin:
    """Handlers for /admin."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def config(self, exchange: Exchange) -> None:
        """GET reads the settings, POST changes the given ones."""
        match exchange.method:
            case "GET":
                await self._read(exchange)
            case "POST":
                await self._change(exchange)
            case other:
                raise ApiError(405, f"{other} is not allowed here, GET and POST are")

    async def _read(self, exchange: Exchange) -> None:
        await exchange.answer_json(self._instance.failures.settings)

    async def _change(self, exchange: Exchange) -> None:
        """Change all given fields together, or none."""
        changes, failures = await exchange.read_body(), self._instance.failures
        try:
            settings = read_changes(changes, failures.settings)
            failures.configure(settings)
        except (msgspec.DecodeError, UnicodeDecodeError, ConfigError) as error:
            raise ApiError(400, str(error)) from error
        await exchange.answer_json(settings)

    async def protocol(self, exchange: Exchange) -> None:
        """What was observed of prefill/decode pairs, including deviations from the protocol."""
        await exchange.answer_json(self._instance.transfers.statistics())
