"""Transcriptions and translations, whole or as OpenAI's events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from headgate.simulator.server.answers.answer import Answer
from headgate.simulator.server.bodies.audio import Spoken
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.live import Ticket
from headgate.simulator.server.script import Script


class SpokenAnswer(Answer):
    """/v1/audio/transcriptions and /v1/audio/translations."""

    def __init__(
        self,
        spoken: Spoken,
        generation: Generation,
        ticket: Ticket,
        scripts: Sequence[Script],
        answer_id: str,
    ) -> None:
        super().__init__(generation, ticket, scripts, answer_id)
        self._spoken = spoken
        self._text = ""

    def whole(self, kv_transfer_params: object = None) -> bytes:
        text = self.scripts[0].text(self.ticket.choices[0].emitted)
        spoken = self._spoken
        if spoken.format == "text":
            return text.encode()
        if spoken.format == "json":
            return msgspec.json.encode({"text": text, "usage": self._usage()})
        told: dict[str, Any] = {"task": "transcribe", "language": spoken.language, "text": text}
        segment = {"id": 0, "start": 0.0, "end": spoken.seconds, "text": text}
        seconds = {"type": "duration", "seconds": spoken.seconds}
        return msgspec.json.encode(
            told | {"duration": spoken.seconds, "segments": [segment], "usage": seconds}
        )

    def token(self, index: int, position: int) -> bytes:
        text = self.scripts[index].next()
        self._text += text
        return _event({"type": "transcript.text.delta", "delta": text}) if text else b""

    def end(self) -> bytes:
        return _event({"type": "transcript.text.done", "text": self._text, "usage": self._usage()})

    def failed(self, error: ApiError) -> bytes:
        return b"data: " + error.body() + b"\n\n"

    def _usage(self) -> dict[str, Any]:
        counts = self.counts()
        return {
            "type": "tokens",
            "input_tokens": counts.prompt,
            "output_tokens": counts.output,
            "total_tokens": counts.prompt + counts.output,
        }


def shape_of(spoken: Spoken) -> partial[SpokenAnswer]:
    """Makes the answers to one request."""
    return partial(SpokenAnswer, spoken)


def _event(event: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(event)
