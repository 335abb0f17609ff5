"""One streamed completion: what is asked, and when its tokens come."""

from __future__ import annotations

import random
from typing import NamedTuple

import msgspec

from headgate.loadtest import HttpError, Response, Server
from headgate.loadtest.plan.texts import WORDS
from headgate.loadtest.streams import Answer, shown

__all__ = ["Sample", "complete", "prompt"]


class Sample(NamedTuple):
    """What one request experienced. Times are those of `time.perf_counter`."""

    began_s: float
    ended_s: float
    ttft_s: float
    itl_s: float
    """Mean; 0 for a response of one token."""
    prompt_tokens: int
    cached_tokens: int
    is_short: bool
    """Whether the response ended before its length."""


def prompt(words: int, rng: random.Random) -> str:
    """A prompt that no cache has: it differs from the first word on."""
    return " ".join(rng.choices(WORDS, k=max(words, 1)))


async def complete(server: Server, model: str, text: str, output_tokens: int) -> Sample:
    """Ask for a completion of exactly that length. Raises HttpError."""
    stream = Answer()
    body = {
        "model": model,
        "prompt": text,
        "max_tokens": output_tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    sent = await server.send("POST", "/v1/completions", msgspec.json.encode(body), stream.take)
    return _sample(sent, stream, output_tokens)


def _sample(sent: Response, stream: Answer, output_tokens: int) -> Sample:
    if sent.status != 200:
        raise HttpError(f"POST /v1/completions returned {sent.status}: {shown(sent.body)}")
    if stream.usage is None or not stream.events:
        raise HttpError("the response has no tokens, or no usage: the engine must support stream_options")
    usage = stream.usage
    tokens = usage.completion_tokens or 0
    steps = max(tokens, 1) - 1
    return Sample(
        began_s=sent.sent_s,
        ended_s=stream.last_s,
        ttft_s=stream.first_s - sent.sent_s,
        itl_s=(stream.last_s - stream.first_s) / steps if steps else 0.0,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens or 0,
        is_short=tokens < output_tokens,
    )
