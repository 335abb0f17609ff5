"""OpenAI's embeddings: vectors that are the same for the same text, and take the time of its prefill."""

import base64
import random
import struct
from typing import Annotated, Any, Literal

import msgspec
import xxhash
from msgspec import Meta

from headgate.simulator.model import Tokens
from headgate.simulator.server.bodies.completions import MAX_CHOICES
from headgate.simulator.server.bodies.decoding import decode, wrong
from headgate.simulator.server.bodies.prompts import TokenIds, text_prompts
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.instance import Instance


class EmbeddingsBody(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    input: str | list[str | int | TokenIds]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Meta(ge=1, le=65_536)] | None = None


_decoder = msgspec.json.Decoder(EmbeddingsBody)


class Embeddings:
    """Handler for /v1/embeddings."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    async def answer(self, exchange: Exchange) -> None:
        generator = self._instance.generator
        await self._instance.admit(exchange)
        body = decode(_decoder, await exchange.read_body())
        prompts, _ = text_prompts(body.input, "input")
        if len(prompts) > MAX_CHOICES:
            raise wrong("input", f"has {len(prompts)} elements; send at most {MAX_CHOICES}")
        # One token, the least that an engine makes, stands for the vector.
        await generator.compute(exchange, Generation(model=body.model, prompts=prompts, max_tokens=1))
        size = body.dimensions or self._instance.settings.embedding_dimensions
        tokens = sum(map(len, prompts))
        await exchange.answer_json(
            {
                "id": f"embd-{exchange.request_id or generator.ids.next()}",
                "object": "list",
                "model": body.model,
                "data": [
                    {"object": "embedding", "index": index, "embedding": _encoded(prompt, size, body)}
                    for index, prompt in enumerate(prompts)
                ],
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            }
        )


def _encoded(prompt: Tokens, size: int, body: EmbeddingsBody) -> Any:
    rng = random.Random(xxhash.xxh3_64_intdigest(prompt.tobytes()))  # noqa: S311
    vector = [rng.uniform(-1, 1) for _ in range(size)]
    length = sum(value * value for value in vector) ** 0.5
    vector = [value / length for value in vector]
    if body.encoding_format == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{size}f", *vector)).decode()
