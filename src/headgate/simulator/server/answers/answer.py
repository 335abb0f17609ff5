"""Shared by the responses of all APIs."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.live import Choice, Ticket
from headgate.simulator.server.script import Script


class Counts(msgspec.Struct, frozen=True):
    """Token counts of a response. The prompt of several choices counts once."""

    prompt: int
    cached: int
    output: int


class Answer(ABC):
    """Writes one response: complete with `whole`, or as events with `start`, `token` per token and `end`."""

    def __init__(
        self, generation: Generation, ticket: Ticket, scripts: Sequence[Script], answer_id: str
    ) -> None:
        self.generation = generation
        self.ticket = ticket
        self.scripts = scripts
        self.answer_id = answer_id

    @abstractmethod
    def whole(self, kv_transfer_params: object = None) -> bytes:
        """The body of a response that is not streamed."""

    def start(self) -> bytes:
        """Events before the first token."""
        return b""

    @abstractmethod
    def token(self, index: int, position: int) -> bytes:
        """The events of a choice's next token."""

    @abstractmethod
    def end(self) -> bytes:
        """Events after the last token."""

    @abstractmethod
    def failed(self, error: ApiError) -> bytes:
        """Events that end a stream early."""

    def counts(self) -> Counts:
        choices = self.ticket.choices
        return Counts(
            prompt=sum(self.generation.prompt_sizes),
            cached=sum(choice.cached_tokens for choice in choices[:: self.generation.choices_per_prompt]),
            output=sum(choice.emitted for choice in choices),
        )

    def is_last(self, choice: Choice, position: int) -> bool:
        return choice.finish_reason is not None and position == choice.emitted - 1


def finish_reason(choice: Choice, script: Script) -> str | None:
    """OpenAI's finish reason."""
    return "tool_calls" if choice.finish_reason == "stop" and script.calls else choice.finish_reason


class CallReader:
    """Splits the tokens of a script into tool calls."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._left = 0
        self.index = -1

    def next(self) -> tuple[bool, str]:
        """Whether a call begins with this token, and the token's part of the arguments."""
        text = self._script.next()
        if not text and not self._left and self.index + 1 < len(self._script.calls):
            self.index += 1
            self._left = len(self._script.calls[self.index].arguments)
            return True, ""
        self._left -= len(text)
        return False, text


def spoken_calls(script: Script, tokens: int) -> list[tuple[int, str]]:
    """The calls contained in the first `tokens` tokens: the index of each, and its arguments so far."""
    reader = CallReader(script)
    told: list[tuple[int, str]] = []
    for _ in range(tokens):
        begins, text = reader.next()
        if begins:
            told.append((reader.index, ""))
        elif text:
            told[-1] = (reader.index, told[-1][1] + text)
    return told


# Made-up log probabilities in OpenAI's two formats; equal texts have equal ones.
MOST_LIKELY = -0.05
STEP = -1.25


def _logprob(token: str) -> float:
    return MOST_LIKELY - (zlib.crc32(token.encode("utf-8", "surrogatepass")) % 1000) / 2000


def _alternatives(token: str, number: int) -> list[tuple[str, float]]:
    """The token and less likely ones."""
    first = _logprob(token)
    return [(token if rank == 0 else f"{token}~{rank}", first + rank * STEP) for rank in range(number)]


def of_chat(tokens: list[str], number: int) -> dict[str, list[dict[str, Any]]]:
    """For /v1/chat/completions; each entry is also used for /v1/responses."""
    return {"content": [_chat_entry(token) | {"top_logprobs": _top(token, number)} for token in tokens]}


def _top(token: str, number: int) -> list[dict[str, Any]]:
    return [_entry(text, value) for text, value in _alternatives(token, number)]


def _chat_entry(token: str) -> dict[str, Any]:
    return _entry(token, _logprob(token))


def _entry(text: str, value: float) -> dict[str, Any]:
    return {"token": text, "logprob": value, "bytes": list(text.encode("utf-8", "surrogatepass"))}


def of_text(tokens: list[str], number: int, offset: int) -> dict[str, Any]:
    """For /v1/completions; `offset` is the length of the text before these tokens."""
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token)
    return {
        "text_offset": offsets,
        "token_logprobs": [_logprob(token) for token in tokens],
        "tokens": tokens,
        "top_logprobs": [dict(_alternatives(token, max(1, number))) for token in tokens],
    }
