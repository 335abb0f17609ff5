"""Handlers for audio, embeddings and rerank: requests that are no chat."""

from __future__ import annotations

import base64
import random
import struct
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from headgate.simulator.model import Tokens, tokenize
from headgate.simulator.server.answers.answer import Answer
from headgate.simulator.server.answers.audio import shape_of
from headgate.simulator.server.bodies import decode
from headgate.simulator.server.bodies.audio import read_audio
from headgate.simulator.server.bodies.completions import MAX_CHOICES
from headgate.simulator.server.bodies.prompts import TokenIds, text_prompts
from headgate.simulator.server.errors import ApiError, wrong
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.instance import Instance

DIMENSIONS: Final = 64
"""Of an embedding, unless the request says otherwise."""
MAX_DIMENSIONS: Final = 4096


class Audio:
    """Handlers for /v1/audio/transcriptions and /v1/audio/translations."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def transcribe(self, exchange: Exchange) -> None:
        await self._instance.admit(exchange)
        spoken = read_audio(exchange.header(b"content-type"), await exchange.read_body())
        await self._instance.generator.answer(exchange, spoken.generation, shape_of(spoken))


class EmbeddingsBody(msgspec.Struct, frozen=True):
    model: str
    input: str | list[str | int | TokenIds]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)] = DIMENSIONS


class RerankBody(msgspec.Struct, frozen=True):
    model: str
    query: str
    documents: Annotated[list[str], Meta(min_length=1)]
    top_n: Annotated[int, Meta(ge=0)] = 0


_embeddings: Final = msgspec.json.Decoder(EmbeddingsBody)
_rerank: Final = msgspec.json.Decoder(RerankBody)


class _Whole(Answer):
    """A response that is ready once its prompts are prefilled: `body` and the counts. Never streamed."""

    body: dict[str, Any]

    def whole(self, kv_transfer_params: object = None) -> bytes:
        tokens = self.counts().prompt
        return msgspec.json.encode({**self.body, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})

    def token(self, index: int, position: int) -> bytes:
        raise AssertionError("it is not streamed")

    def end(self) -> bytes:
        raise AssertionError("it is not streamed")

    def failed(self, error: ApiError) -> bytes:
        raise AssertionError("it is not streamed")


class Pooling:
    """Handlers for /v1/embeddings and rerank: prompts are prefilled like others, and nothing is generated
    after the first step."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def embed(self, exchange: Exchange) -> None:
        await self._instance.admit(exchange)
        asked = decode(_embeddings, await exchange.read_body())
        prompts = text_prompts(asked.input)
        data = [
            {"object": "embedding", "index": index, "embedding": _embedding(prompt, asked)}
            for index, prompt in enumerate(prompts)
        ]
        await self._answer(
            exchange, asked.model, prompts, {"object": "list", "model": asked.model, "data": data}
        )

    async def rerank(self, exchange: Exchange) -> None:
        """Documents are relevant as far as they have the words of the query."""
        await self._instance.admit(exchange)
        asked = decode(_rerank, await exchange.read_body())
        ranked = sorted(
            (
                {
                    "index": index,
                    "document": {"text": text},
                    "relevance_score": _relevance(asked.query, text),
                }
                for index, text in enumerate(asked.documents)
            ),
            key=lambda result: -float(str(result["relevance_score"])),
        )
        prompts = tuple(tokenize(f"{asked.query} {text}") for text in asked.documents)
        results = ranked[: asked.top_n or len(ranked)]
        await self._answer(exchange, asked.model, prompts, {"model": asked.model, "results": results})

    async def _answer(
        self, exchange: Exchange, model: str, prompts: tuple[Tokens, ...], body: dict[str, Any]
    ) -> None:
        if len(prompts) > MAX_CHOICES:
            raise wrong("input", f"{len(prompts)} texts exceed {MAX_CHOICES}; send fewer")
        generation = Generation(model=model, prompts=prompts, max_tokens=1)

        def shape(*told: Any) -> Answer:
            answer = _Whole(*told)
            answer.body = {"id": answer.answer_id, **body}
            return answer

        await self._instance.generator.answer(exchange, generation, shape)


def _embedding(prompt: Tokens, asked: EmbeddingsBody) -> list[float] | str:
    """A vector that depends on the text alone."""
    rng = random.Random(prompt.tobytes())  # noqa: S311
    vector = [rng.uniform(-1, 1) for _ in range(asked.dimensions)]
    if asked.encoding_format == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _relevance(query: str, text: str) -> float:
    asked = set(query.lower().split())
    return round(len(asked & set(text.lower().split())) / max(len(asked), 1), 4)
