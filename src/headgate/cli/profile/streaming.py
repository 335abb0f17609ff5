"""One streamed completion: what is asked, and when its tokens come."""

from __future__ import annotations

import random
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from headgate.cli.profile.http import HttpError, Response, Server

__all__ = ["Sample", "complete", "prompt"]

MAX_EVENT_BYTES: Final = 2**20
_SHOWN_CHARACTERS: Final = 300
# Words of three letters are one token for most tokenizers.
_TEXT: Final = (
    "act age air arm art ask bad bag bar bay bed big bit box boy bus buy can cap car cat cow cry cup cut day "
    "dry ear eat egg end eye fan far fat few fit fly fun gas get guy hat hit hot ice job key kid law leg let"
)
_WORDS: Final = _TEXT.split()

_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]


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
    return " ".join(rng.choices(_WORDS, k=max(words, 1)))


class _Details(msgspec.Struct):
    cached_tokens: _Count | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    prompt_tokens_details: _Details | None = None


class _Event(msgspec.Struct):
    choices: list[Any] = []
    usage: _Usage | None = None
    error: Any = None


_EVENTS = msgspec.json.Decoder(_Event)


class _Stream:
    """Events of a response, as they come."""

    def __init__(self) -> None:
        self.first_s = 0.0
        self.last_s = 0.0
        self.events = 0
        self.usage: _Usage | None = None
        self._rest = b""

    def take(self, data: bytes, now_s: float) -> None:
        """Raises HttpError."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise HttpError("an event of the stream is too long")
        for line in lines:
            text = line.removeprefix(b"data:").strip()
            if line.startswith(b"data:") and text != b"[DONE]":
                self._event(text, now_s)

    def _event(self, text: bytes, now_s: float) -> None:
        try:
            event = _EVENTS.decode(text)
        except (msgspec.MsgspecError, RecursionError):
            raise HttpError(f"an event of the stream is no completion: {_shown(text)}") from None
        if event.error is not None:
            raise HttpError(f"the stream ended with an error: {_shown(text)}")
        if event.usage is not None:
            self.usage = event.usage
        if event.choices:
            self.events += 1
            self.last_s = now_s
            self.first_s = self.first_s or now_s


async def complete(server: Server, model: str, text: str, output_tokens: int) -> Sample:
    """Ask for a completion of exactly that length. Raises HttpError."""
    stream = _Stream()
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


def _sample(sent: Response, stream: _Stream, output_tokens: int) -> Sample:
    if sent.status != 200:
        raise HttpError(f"POST /v1/completions returned {sent.status}: {_shown(sent.body)}")
    if stream.usage is None or not stream.events:
        raise HttpError("the response has no tokens, or no usage: the engine must support stream_options")
    usage, details = stream.usage, stream.usage.prompt_tokens_details
    steps = max(usage.completion_tokens, 1) - 1
    return Sample(
        began_s=sent.sent_s,
        ended_s=stream.last_s,
        ttft_s=stream.first_s - sent.sent_s,
        itl_s=(stream.last_s - stream.first_s) / steps if steps else 0.0,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=(details.cached_tokens or 0) if details is not None else 0,
        is_short=usage.completion_tokens < output_tokens,
    )


def _shown(text: bytes) -> str:
    return text[:_SHOWN_CHARACTERS].decode(errors="replace")
