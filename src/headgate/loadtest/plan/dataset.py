"""Conversations of a dataset in ShareGPT's format, as prompts. Pure.

The file is a JSON array of `{"id": ..., "conversations": [{"from": "human", "value": "..."}, {"from": "gpt",
"value": "..."}, ...]}`, or has one such object in each line. `messages` with `role` and `content` are
accepted too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from headgate.traffic.traces import TimedRequest

__all__ = ["DatasetError", "Prompted", "conversations_of"]

MAX_BYTES: Final = 2**30
_BYTES_PER_TOKEN: Final = 4
FEWEST_TOKENS: Final = 4
MOST_PROMPT_TOKENS: Final = 1024
MOST_TOKENS: Final = 2048
"""Of a first turn: as in the benchmarks of vLLM, others are left out."""
_USERS: Final = ("human", "user")
_ASSISTANTS: Final = ("gpt", "assistant", "chatgpt", "bing", "bard")


class DatasetError(ValueError):
    """A file is no dataset; the message says why."""


class Prompted(NamedTuple):
    """Requests with their texts."""

    requests: list[TimedRequest]
    texts: list[str]


class _Said(msgspec.Struct):
    speaker: str = msgspec.field(default="", name="from")
    value: str = ""
    role: str = ""
    content: str = ""

    @property
    def is_user(self) -> bool:
        return (self.speaker or self.role) in _USERS

    @property
    def is_assistant(self) -> bool:
        return (self.speaker or self.role) in _ASSISTANTS

    @property
    def text(self) -> str:
        return self.value or self.content


class _Conversation(msgspec.Struct):
    conversations: list[_Said] = []
    messages: list[_Said] = []


class _Exchange(NamedTuple):
    asked: str
    answered_tokens: int


def conversations_of(
    data: bytes, count: int, turns: int, output_tokens: int | None, rng: random.Random
) -> Prompted:
    """That many requests of random conversations; each conversation has at most `turns` turns.

    All requests are due at 0. Tokens are estimated as four bytes each; responses have the length of the
    recorded ones, or `output_tokens`. Conversations are repeated if there are too few. Raises DatasetError.
    """
    usable = [found for each in _parsed(data) if (found := _exchanges(each, turns, output_tokens))]
    if not usable:
        raise DatasetError(
            f"no conversation begins with a prompt of {FEWEST_TOKENS} to {MOST_PROMPT_TOKENS} tokens and "
            "has a response"
        )
    requests: list[TimedRequest] = []
    texts: list[str] = []
    session = 0
    while len(requests) < count:
        rng.shuffle(usable)
        for exchanges in usable:
            _append(exchanges[: count - len(requests)], session if turns > 1 else -1, requests, texts)
            session += 1
            if len(requests) == count:
                break
    return Prompted(requests, texts)


def _parsed(data: bytes) -> list[_Conversation]:
    try:
        if data.lstrip()[:1] == b"[":
            return msgspec.json.decode(data, type=list[_Conversation])
        return list(_lines(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DatasetError(f"is no list of conversations: {error}") from None


def _lines(data: bytes) -> Iterator[_Conversation]:
    decoder = msgspec.json.Decoder(_Conversation)
    for line in data.splitlines():
        if line.strip():
            yield decoder.decode(line)


def _exchanges(conversation: _Conversation, turns: int, output_tokens: int | None) -> list[_Exchange]:
    """Prompts with their responses, from the first; empty if the conversation is unusable."""
    said = conversation.conversations or conversation.messages
    found: list[_Exchange] = []
    for asked, answered in zip(said[::2], said[1::2], strict=False):
        if not (asked.is_user and answered.is_assistant and asked.text.strip()) or len(found) == turns:
            break
        found.append(_Exchange(asked.text, output_tokens or max(_tokens(answered.text), 1)))
    if not found:
        return []
    first, prompt_tokens = found[0], _tokens(found[0].asked)
    is_fit = (
        FEWEST_TOKENS <= prompt_tokens <= MOST_PROMPT_TOKENS
        and first.answered_tokens >= FEWEST_TOKENS
        and prompt_tokens + first.answered_tokens <= max(MOST_TOKENS, output_tokens or 0)
    )
    return found if is_fit else []


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // _BYTES_PER_TOKEN)


def _append(
    exchanges: Sequence[_Exchange], session: int, requests: list[TimedRequest], texts: list[str]
) -> None:
    context = 0
    for place, exchange in enumerate(exchanges):
        context += _tokens(exchange.asked)
        requests.append(
            TimedRequest(
                at_s=0.0,
                think_s=None if place == 0 else 0.0,
                prompt_tokens=context,
                output_tokens=exchange.answered_tokens,
                session=session,
            )
        )
        texts.append(exchange.asked)
        context += exchange.answered_tokens
