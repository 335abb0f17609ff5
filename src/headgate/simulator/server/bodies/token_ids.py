"""The body of /inference/v1/generate: a prompt that was tokenized elsewhere."""

from typing import Annotated

import msgspec
from msgspec import Meta

from headgate.simulator.server.bodies.completions import Choices, Count, StopStrings, StreamOptions
from headgate.simulator.server.bodies.decoding import decode, wrong
from headgate.simulator.server.bodies.multimodal import Features, place
from headgate.simulator.server.bodies.prompts import TokenIds, token_ids
from headgate.simulator.server.generation import Generation, Item
from headgate.simulator.server.kv_fields import EncodedParams, NixlParams


class SamplingParams(msgspec.Struct, frozen=True):
    """What of vLLM's changes the simulated answer."""

    max_tokens: Count | None = None
    min_tokens: Annotated[int, Meta(ge=0)] = 0
    ignore_eos: bool = False
    stop: StopStrings | None = None
    seed: int | None = None
    n: Choices = 1


class GenerateBody(msgspec.Struct, frozen=True, kw_only=True):
    token_ids: Annotated[TokenIds, Meta(min_length=1)]
    sampling_params: SamplingParams
    request_id: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    priority: int = 0
    cache_salt: Annotated[str, Meta(max_length=1024)] | None = None
    cache_hit_threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    kv_transfer_params: NixlParams | None = None
    ec_transfer_params: EncodedParams | None = None
    features: Features | None = None


_generate = msgspec.json.Decoder(GenerateBody)


def read_generate(body: bytes, model: str) -> tuple[Generation, str | None]:
    """The request and its id; `model` is the one of a body without. `ApiError` names the field."""
    asked = decode(_generate, body)
    params = asked.sampling_params
    if params.max_tokens is not None and params.min_tokens > params.max_tokens:
        problem = f"must be at most max_tokens={params.max_tokens}, got {params.min_tokens}"
        raise wrong("sampling_params.min_tokens", problem)
    prompt = token_ids("token_ids", asked.token_ids)
    items: tuple[Item, ...] = ()
    if asked.features is not None:
        prompt, items = place(prompt, asked.features)
    generation = Generation(
        model=asked.model or model,
        prompts=(prompt,),
        items=items,
        said=("",),
        choices_per_prompt=params.n,
        max_tokens=params.max_tokens,
        min_tokens=params.min_tokens,
        ignore_eos=params.ignore_eos,
        stop=(params.stop,) if isinstance(params.stop, str) else tuple(params.stop or ()),
        seed=params.seed,
        stream=asked.stream,
        include_usage=asked.stream_options is not None and asked.stream_options.include_usage,
        priority=asked.priority,
        cache_salt=asked.cache_salt or "",
        cache_hit_threshold=asked.cache_hit_threshold,
        kv_params=asked.kv_transfer_params,
        ec_params=asked.ec_transfer_params or {},
    )
    return generation, asked.request_id
