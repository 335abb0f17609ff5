"""What is sent: conversations of requests at their times, and the text of each prompt. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from headgate.loadtest.plan.texts import Texts
from headgate.traffic.traces import TimedRequest

Api = Literal["chat", "completions"]
PATHS: dict[Api, str] = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


class Turn(NamedTuple):
    """One request of a plan, with its place in it."""

    number: int
    request: TimedRequest
    text: str | None = None
    """What the user says, if it comes from a dataset."""


Conversation = Sequence[Turn]
"""The first turn is sent at its time, each further one after the response to the one before."""


def conversations(requests: Iterable[TimedRequest], texts: Sequence[str] = ()) -> list[Conversation]:
    """The requests in order of arrival; those with `think_s` follow the one before them."""
    found: list[list[Turn]] = []
    for number, request in enumerate(requests):
        turn = Turn(number, request, texts[number] if texts else None)
        if request.think_s is None or not found:
            found.append([turn])
        else:
            found[-1].append(turn)
    return list(found)


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are written."""

    api: Api = "chat"
    model: str
    is_streamed: bool = True
    is_exact: bool = True
    """Whether responses shall not end before their length: `ignore_eos` and `min_tokens`."""
    asks_for_usage: bool = True
    """Whether a stream shall end with the count of tokens: `stream_options`."""
    more: dict[str, Any] = {}
    """Further fields of the body, such as the temperature."""

    @property
    def path(self) -> str:
        return PATHS[self.api]

    def body(self, said: Sequence[str], request: TimedRequest) -> bytes:
        """The JSON of a request. `said`: texts of user and assistant in turn, the last one the user's."""
        document: dict[str, Any] = {"model": request.adapter or self.model}
        if self.api == "chat":
            roles = ("user", "assistant")
            document["messages"] = [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
        else:
            document["prompt"] = "".join(said)
        document["max_tokens"] = request.output_tokens
        if self.is_exact:
            document |= {"ignore_eos": True, "min_tokens": request.output_tokens}
        if self.is_streamed:
            document["stream"] = True
            if self.asks_for_usage:
                document["stream_options"] = {"include_usage": True}
        return msgspec.json.encode(document | self.more)


class Prompts:
    """The texts of a run."""

    def __init__(self, salt: str) -> None:
        """Runs with another salt share no prompt that a cache could have; an empty one leaves the texts of a
        dataset as they are."""
        self._salt = salt
        self._texts = Texts(salt)

    def text(self, turn: Turn, before: Turn | None) -> str:
        """What the user says in a turn, after the turn before and its response."""
        if turn.text is not None:
            return f"{self._tag}{turn.text}" if before is None else turn.text
        if before is None:
            return self._texts.prompt(turn.request, f"request {turn.number}")
        earlier = before.request.prompt_tokens + before.request.output_tokens
        own = max(turn.request.prompt_tokens - earlier, 1)
        return self._texts.words(f"turn {turn.number}", own).rstrip()

    @property
    def _tag(self) -> str:
        """Words at the beginning of each text, which other runs do not have."""
        return self._texts.words("salt", 4) if self._salt else ""
