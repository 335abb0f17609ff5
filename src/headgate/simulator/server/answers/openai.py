"""Chat completions and completions, in vLLM's format."""

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import msgspec

from headgate.simulator.server.answers.answer import (
    Answer,
    CallReader,
    finish_reason,
    of_chat,
    of_text,
    spoken_calls,
)
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.live import Choice, Ticket
from headgate.simulator.server.script import Script

DONE = b"data: [DONE]\n\n"


class _Completion(Answer):
    """Shared by both APIs; they differ in names and in the contents of a choice."""

    prefix: str
    whole_object: str
    chunk_object: str

    def __init__(
        self, generation: Generation, ticket: Ticket, scripts: Sequence[Script], answer_id: str
    ) -> None:
        super().__init__(generation, ticket, scripts, answer_id)
        self._head = {"id": f"{self.prefix}-{answer_id}", "created": int(time.time())}
        head = {**self._head, "object": self.chunk_object, "model": generation.model}
        self._event_head = b"data: " + msgspec.json.encode(head)[:-1]

    def whole(self, kv_transfer_params: object = None) -> bytes:
        body = {
            **self._head,
            "object": self.whole_object,
            "model": self.generation.model,
            "choices": [
                self._whole_choice(index, choice) for index, choice in enumerate(self.ticket.choices)
            ],
            "usage": self._usage(),
            "kv_transfer_params": kv_transfer_params,
        }
        return msgspec.json.encode(body)

    def end(self) -> bytes:
        if not self.generation.include_usage:
            return DONE
        usage = msgspec.json.encode(self._usage())
        return b'%b,"choices":[],"usage":%b}\n\n%b' % (self._event_head, usage, DONE)

    def failed(self, error: ApiError) -> bytes:
        return b"data: " + error.body() + b"\n\n" + DONE

    def _usage(self) -> dict[str, Any]:
        counts = self.counts()
        return {
            "prompt_tokens": counts.prompt,
            "total_tokens": counts.prompt + counts.output,
            "completion_tokens": counts.output,
            "prompt_tokens_details": {"cached_tokens": counts.cached},
        }

    def _event(self, index: int, payload: str, last: bool, logprobs: str = "null") -> bytes:
        """An event of one choice. Its parts are already JSON, because this runs for every token."""
        end = "null"
        if last:
            script = self.scripts[index]
            reason = finish_reason(self.ticket.choices[index], script)
            stop = msgspec.json.encode(script.stop_reason).decode()
            end = f'"{reason}","stop_reason":{stop}'
        choice = f'{{"index":{index},{payload},"logprobs":{logprobs},"finish_reason":{end}}}'
        return b'%b,"choices":[%b]}\n\n' % (self._event_head, choice.encode())

    def _whole_choice(self, index: int, choice: Choice) -> dict[str, Any]:
        script = self.scripts[index]
        return {
            "index": index,
            **self._content(script, choice),
            "finish_reason": finish_reason(choice, script),
            "stop_reason": script.stop_reason,
        }

    @abstractmethod
    def _content(self, script: Script, choice: Choice) -> dict[str, Any]:
        """The text fields of a choice in a complete response."""


class ChatAnswer(_Completion):
    """/v1/chat/completions."""

    prefix = "chatcmpl"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def __init__(
        self, generation: Generation, ticket: Ticket, scripts: Sequence[Script], answer_id: str
    ) -> None:
        super().__init__(generation, ticket, scripts, answer_id)
        self._readers = [CallReader(script) if script.calls else None for script in scripts]

    def token(self, index: int, position: int) -> bytes:
        """One event; before a choice's first token, an event with the role."""
        last = self.is_last(self.ticket.choices[index], position)
        payload, logprobs = self._delta(index)
        event = self._event(index, f'"delta":{payload}', last, logprobs)
        if position == 0:
            return self._event(index, '"delta":{"role":"assistant","content":""}', last=False) + event
        return event

    def _delta(self, index: int) -> tuple[str, str]:
        reader, script = self._readers[index], self.scripts[index]
        if reader is not None:
            return self._call_delta(reader, script), "null"
        text = script.next()
        quoted = f'"{text}"' if script.plain else msgspec.json.encode(text).decode()
        logprobs = "null"
        if self.generation.logprobs is not None and text:
            logprobs = msgspec.json.encode(of_chat([text], self.generation.logprobs)).decode()
        return f'{{"content":{quoted}}}', logprobs

    def _call_delta(self, reader: CallReader, script: Script) -> str:
        begins, text = reader.next()
        if begins:
            call = script.calls[reader.index]
            function = {"name": call.name, "arguments": ""}
            told = {"index": reader.index, "id": call.id, "type": "function", "function": function}
        elif text:
            told = {"index": reader.index, "function": {"arguments": text}}
        else:
            return "{}"
        return f'{{"tool_calls":[{msgspec.json.encode(told).decode()}]}}'

    def _content(self, script: Script, choice: Choice) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": None}
        logprobs = None
        if script.calls:
            message["tool_calls"] = [
                {
                    "id": script.calls[number].id,
                    "type": "function",
                    "function": {"name": script.calls[number].name, "arguments": arguments},
                }
                for number, arguments in spoken_calls(script, choice.emitted)
            ]
        elif self.generation.logprobs is not None:
            tokens = [text for _ in range(choice.emitted) if (text := script.next())]
            message["content"] = "".join(tokens)
            logprobs = of_chat(tokens, self.generation.logprobs)
        else:
            message["content"] = script.text(choice.emitted)
        return {"message": message, "logprobs": logprobs}


class TextAnswer(_Completion):
    """/v1/completions."""

    prefix = "cmpl"
    whole_object = "text_completion"
    chunk_object = "text_completion"

    def __init__(
        self, generation: Generation, ticket: Ticket, scripts: Sequence[Script], answer_id: str
    ) -> None:
        super().__init__(generation, ticket, scripts, answer_id)
        self._offsets = [0] * len(scripts)

    def token(self, index: int, position: int) -> bytes:
        script = self.scripts[index]
        text = script.next()
        quoted = f'"{text}"' if script.plain else msgspec.json.encode(text).decode()
        logprobs = "null"
        if self.generation.logprobs is not None and text:
            told = of_text([text], self.generation.logprobs, self._offsets[index])
            self._offsets[index] += len(text)
            logprobs = msgspec.json.encode(told).decode()
        last = self.is_last(self.ticket.choices[index], position)
        return self._event(index, f'"text":{quoted}', last, logprobs)

    def _content(self, script: Script, choice: Choice) -> dict[str, Any]:
        if self.generation.logprobs is None:
            return {"text": script.text(choice.emitted), "logprobs": None}
        tokens = [text for _ in range(choice.emitted) if (text := script.next())]
        return {"text": "".join(tokens), "logprobs": of_text(tokens, self.generation.logprobs, 0)}
