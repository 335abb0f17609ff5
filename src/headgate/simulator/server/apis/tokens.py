"""vLLM's way to count tokens: /tokenize and /detokenize."""

from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.simulator.model import detokenize, tokenize
from headgate.simulator.server.bodies import decode
from headgate.simulator.server.bodies.prompts import Message, TokenIds, chat_prompt, token_ids
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.instance import Instance


class TokenizeBody(msgspec.Struct, frozen=True):
    """Either form: a prompt, or messages."""

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
    """Handlers for text to tokens and back."""

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
