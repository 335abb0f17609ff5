"""Responses of OpenAI's API as they arrive: events of a stream, or one document."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from headgate.loadtest.http import HttpError

__all__ = ["Answer", "Usage", "shown"]

MAX_EVENT_BYTES: Final = 2**20
_SHOWN_CHARACTERS: Final = 300

_Count = Annotated[int, msgspec.Meta(ge=0, le=1_000_000_000)]


class _Details(msgspec.Struct):
    cached_tokens: _Count | None = None


class Usage(msgspec.Struct):
    """The server's own count of tokens."""

    prompt_tokens: _Count = 0
    completion_tokens: _Count | None = None
    prompt_tokens_details: _Details | None = None

    @property
    def cached_tokens(self) -> int | None:
        """None if the server does not tell."""
        return None if self.prompt_tokens_details is None else self.prompt_tokens_details.cached_tokens


class _Message(msgspec.Struct):
    """A delta of a stream, or a message."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: Any = None
    tool_calls: Any = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Message | None = None
    message: _Message | None = None
    finish_reason: str | None = None

    @property
    def has_token(self) -> bool:
        if self.text:
            return True
        said = self.delta
        return said is not None and bool(
            said.content or said.reasoning_content or said.reasoning or said.tool_calls
        )

    @property
    def content(self) -> str:
        said = self.delta or self.message
        return self.text or (said.content if said is not None else None) or ""


class _Event(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Usage | None = None
    error: Any = None


_EVENTS = msgspec.json.Decoder(_Event)


class Answer:
    """What a client learns of one response. Times are those of `time.perf_counter`."""

    def __init__(self, keeps_text: bool = False) -> None:
        self.first_s = 0.0
        self.last_s = 0.0
        """Of the last event with a token."""
        self.events = 0
        """Events with a token."""
        self.gaps_s: list[float] = []
        """Between events with a token."""
        self.usage: Usage | None = None
        self.finish_reason: str | None = None
        self.is_done = False
        """Whether the stream said that it is complete."""
        self._keeps_text = keeps_text
        self._texts: list[str] = []
        self._rest = b""

    @property
    def text(self) -> str:
        """The content, if it is kept."""
        return "".join(self._texts)

    def take(self, data: bytes, now_s: float) -> None:
        """A part of a stream. Raises HttpError."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise HttpError("an event of the stream is too long", "too-long")
        for line in lines:
            if line.startswith(b"data:"):
                text = line[5:].strip()
                if text == b"[DONE]":
                    self.is_done = True
                elif text:
                    self._take(_decoded(text), text, now_s)

    def take_document(self, body: bytes, now_s: float) -> None:
        """A whole response that is no stream. Raises HttpError."""
        event = _decoded(body)
        self._take(event, body, now_s)
        self.is_done = bool(event.choices)

    def _take(self, event: _Event, text: bytes, now_s: float) -> None:
        if event.error is not None:
            raise HttpError(f"the stream ended with an error: {shown(text)}", "stream-error")
        if event.usage is not None:
            self.usage = event.usage
        for choice in event.choices or ():
            if choice.finish_reason is not None:
                self.finish_reason = choice.finish_reason
            if choice.has_token:
                self._token(now_s)
            if self._keeps_text and choice.content:
                self._texts.append(choice.content)

    def _token(self, now_s: float) -> None:
        if self.events:
            self.gaps_s.append(now_s - self.last_s)
        else:
            self.first_s = now_s
        self.last_s = now_s
        self.events += 1


def _decoded(text: bytes) -> _Event:
    try:
        return _EVENTS.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise HttpError(f"the response has no completion: {shown(text)}", "protocol") from None


def shown(text: bytes) -> str:
    """On one line, shortened."""
    decoded = text[:_SHOWN_CHARACTERS].decode(errors="replace")
    return "".join(each if each.isprintable() else " " for each in decoded).strip()
