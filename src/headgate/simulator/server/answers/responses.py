"""OpenAI's Responses API: complete responses and numbered events."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.simulator.server.answers.answer import Answer, CallReader, of_chat, spoken_calls
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.live import Choice, Ticket
from headgate.simulator.server.script import Script


class ResponsesAnswer(Answer):
    """/v1/responses: one output item, a message or a function call."""

    def __init__(
        self, generation: Generation, ticket: Ticket, scripts: Sequence[Script], answer_id: str
    ) -> None:
        super().__init__(generation, ticket, scripts, answer_id)
        self._script = scripts[0]
        self._reader = CallReader(self._script) if self._script.calls else None
        self._created = int(time.time())
        self._number = 0
        self._said: list[str] = []

    @property
    def _choice(self) -> Choice:
        return self.ticket.choices[0]

    def whole(self, kv_transfer_params: object = None) -> bytes:
        if self._script.calls:
            self._said = [text for _, text in spoken_calls(self._script, self._choice.emitted)]
        else:
            tokens = (self._script.next() for _ in range(self._choice.emitted))
            self._said = [text for text in tokens if text]
        status = self._status()
        body = self._response(status, [self._item(status)]) | {"kv_transfer_params": kv_transfer_params}
        return msgspec.json.encode(body)

    def start(self) -> bytes:
        empty = self._response("in_progress", [])
        events = self._event("created", response=empty) + self._event("in_progress", response=empty)
        item = self._item("in_progress")
        if not self._script.calls:
            item["content"] = []
        events += self._event("output_item.added", output_index=0, item=item)
        if self._script.calls:
            return events
        return events + self._event("content_part.added", **self._place(), part=_text_part(""))

    def token(self, index: int, position: int) -> bytes:
        if self._reader is not None:
            _, text = self._reader.next()
            kind, place = "function_call_arguments.delta", self._item_place()
        else:
            text = self._script.next()
            kind, place = "output_text.delta", self._place() | {"logprobs": self._logprobs([text])}
        if not text:
            return b""
        self._said.append(text)
        return self._event(kind, **place, delta=text)

    def end(self) -> bytes:
        text, status = "".join(self._said), self._status()
        if self._script.calls:
            events = self._event("function_call_arguments.done", **self._item_place(), arguments=text)
        else:
            place = self._place()
            logprobs = self._logprobs(self._said)
            events = self._event("output_text.done", **place, text=text, logprobs=logprobs)
            events += self._event("content_part.done", **place, part=_text_part(text, logprobs))
        item = self._item(status)
        events += self._event("output_item.done", output_index=0, item=item)
        return events + self._event(status, response=self._response(status, [item]))

    def failed(self, error: ApiError) -> bytes:
        failure = {"code": "server_error", "message": error.message}
        return self._event("failed", response=self._response("failed", []) | {"error": failure})

    def _logprobs(self, tokens: list[str]) -> list[Any]:
        """Log probabilities of the tokens, if the request asks for them."""
        number = self.generation.logprobs
        return [] if number is None else of_chat([text for text in tokens if text], number)["content"]

    def _status(self) -> str:
        return "incomplete" if self._choice.finish_reason == "length" else "completed"

    def _item_place(self) -> dict[str, Any]:
        return {"item_id": self._item_id, "output_index": 0}

    def _place(self) -> dict[str, Any]:
        return self._item_place() | {"content_index": 0}

    @property
    def _item_id(self) -> str:
        return f"{'fc' if self._script.calls else 'msg'}_{self.answer_id}"

    def _item(self, status: str) -> dict[str, Any]:
        text = "".join(self._said)
        if self._script.calls:
            call = self._script.calls[0]
            return {
                "type": "function_call",
                "id": self._item_id,
                "call_id": call.id,
                "name": call.name,
                "arguments": text,
                "status": status,
            }
        content = [_text_part(text, self._logprobs(self._said))]
        return {
            "type": "message",
            "id": self._item_id,
            "role": "assistant",
            "status": status,
            "content": content,
        }

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        cut = status == "incomplete"
        return {
            "id": f"resp_{self.answer_id}",
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "model": self.generation.model,
            "output": output,
            "parallel_tool_calls": False,
            "tool_choice": self.generation.tool_choice,
            "tools": [],
            "usage": None if status == "in_progress" else self._usage(),
        }

    def _usage(self) -> dict[str, Any]:
        counts = self.counts()
        return {
            "input_tokens": counts.prompt,
            "input_tokens_details": {"cached_tokens": counts.cached},
            "output_tokens": counts.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counts.prompt + counts.output,
        }

    def _event(self, kind: str, **fields: Any) -> bytes:
        name = kind if kind.startswith("response.") else f"response.{kind}"
        data = msgspec.json.encode({"type": name, "sequence_number": self._number, **fields})
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def _text_part(text: str, logprobs: Sequence[Any] = ()) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
