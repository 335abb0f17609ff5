"""Anthropic's Messages API: complete responses and events."""

from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.simulator.server.answers.answer import Answer, CallReader, spoken_calls
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.live import Choice, Ticket
from headgate.simulator.server.script import Script

_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def error_body(error: ApiError) -> bytes:
    """An error in Anthropic's format."""
    kind = _KINDS.get(error.status, "api_error")
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": error.message}})


class MessagesAnswer(Answer):
    """/v1/messages: one choice, in blocks of text or tool use."""

    def __init__(
        self, generation: Generation, ticket: Ticket, scripts: Sequence[Script], answer_id: str
    ) -> None:
        super().__init__(generation, ticket, scripts, answer_id)
        self._script = scripts[0]
        self._reader = CallReader(self._script) if self._script.calls else None
        self._open = -1  # index of the open block

    @property
    def _choice(self) -> Choice:
        return self.ticket.choices[0]

    def whole(self, kv_transfer_params: object = None) -> bytes:
        return msgspec.json.encode(
            self._message(self._blocks(), self._stop_reason()) | {"usage": self._usage()}
        )

    def start(self) -> bytes:
        usage = {**self._usage(), "output_tokens": 0}
        message = self._message([], None) | {"usage": usage}
        return _event("message_start", {"message": message})

    def token(self, index: int, position: int) -> bytes:
        if self._reader is not None:
            return self._call_token(self._reader)
        text = self._script.next()
        events = self._open_block(0, {"type": "text", "text": ""}) if self._open < 0 else b""
        if not text:
            return events
        delta = {"type": "text_delta", "text": text}
        return events + _event("content_block_delta", {"index": 0, "delta": delta})

    def end(self) -> bytes:
        delta = {"stop_reason": self._stop_reason(), "stop_sequence": self._script.stop_reason}
        last = _event("message_delta", {"delta": delta, "usage": self._usage()})
        return self._close_block() + last + _event("message_stop", {})

    def failed(self, error: ApiError) -> bytes:
        return b"event: error\ndata: %b\n\n" % error_body(error)

    def _call_token(self, reader: CallReader) -> bytes:
        begins, text = reader.next()
        if begins:
            call = self._script.calls[reader.index]
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            return self._close_block() + self._open_block(reader.index, block)
        if not text:
            return b""
        delta = {"type": "input_json_delta", "partial_json": text}
        return _event("content_block_delta", {"index": reader.index, "delta": delta})

    def _open_block(self, index: int, block: dict[str, Any]) -> bytes:
        self._open = index
        return _event("content_block_start", {"index": index, "content_block": block})

    def _close_block(self) -> bytes:
        return _event("content_block_stop", {"index": self._open}) if self._open >= 0 else b""

    def _blocks(self) -> list[dict[str, Any]]:
        if not self._script.calls:
            return [{"type": "text", "text": self._script.text(self._choice.emitted)}]
        return [
            {
                "type": "tool_use",
                "id": self._script.calls[number].id,
                "name": self._script.calls[number].name,
                "input": _whole_json(arguments),
            }
            for number, arguments in spoken_calls(self._script, self._choice.emitted)
        ]

    def _message(self, blocks: list[dict[str, Any]], stop_reason: str | None) -> dict[str, Any]:
        return {
            "id": f"msg_{self.answer_id}",
            "type": "message",
            "role": "assistant",
            "model": self.generation.model,
            "content": blocks,
            "stop_reason": stop_reason,
            "stop_sequence": self._script.stop_reason if stop_reason else None,
        }

    def _stop_reason(self) -> str:
        if self._choice.finish_reason == "length":
            return "max_tokens"
        if self._script.calls:
            return "tool_use"
        return "stop_sequence" if self._script.stop_reason else "end_turn"

    def _usage(self) -> dict[str, int]:
        counts = self.counts()
        return {
            "input_tokens": counts.prompt - counts.cached,
            "cache_read_input_tokens": counts.cached,
            "output_tokens": counts.output,
        }


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **data}))


def _whole_json(arguments: str) -> Any:
    """Arguments cut by the token limit are not JSON; they become empty."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return {}
