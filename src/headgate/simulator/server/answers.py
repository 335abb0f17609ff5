"""Response bodies and server-sent events in the shapes that vLLM gives them.

A token that ends an answer by itself (`stop`) is the end-of-sequence token: it counts, and has no text.
"""

import time
from collections.abc import Sequence

import msgspec

from headgate.simulator.model import Vocabulary
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.live import Choice, Ticket

DONE = b"data: [DONE]\n\n"


def usage(generation: Generation, choices: Sequence[Choice]) -> dict[str, object]:
    """Exact in the simulator's own tokens; the prompt of several choices counts once."""
    prompt, output = sum(generation.prompt_sizes), sum(choice.emitted for choice in choices)
    cached = sum(choice.cached_tokens for choice in choices[:: generation.choices_per_prompt])
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + output,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


class Answer:
    """Writes one answer: whole by `whole`, or as events by `token_event` and `usage_event`."""

    def __init__(self, generation: Generation, ticket: Ticket, *, answer_id: str, seed: int) -> None:
        self._generation = generation
        self._ticket = ticket
        self._chat = generation.kind == "chat"
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        self._id = f"{'chatcmpl' if self._chat else 'cmpl'}-{answer_id}"
        self._created = int(time.time())
        head = {"id": self._id, "object": kind, "created": self._created, "model": generation.model}
        self._event_head = b"data: " + msgspec.json.encode(head)[:-1]
        # Sequences of one request differ, and the same request gets the same answer from every engine.
        self._texts = [
            Vocabulary(seed, generation.seed, generation.prompt_sizes, index)
            for index in range(len(ticket.choices))
        ]

    def whole(self, kv_transfer_params: object = None) -> bytes:
        """The body of an answer that is not streamed."""
        generation, choices = self._generation, self._ticket.choices
        body = {
            "id": self._id,
            "object": "chat.completion" if self._chat else "text_completion",
            "created": self._created,
            "model": generation.model,
            "choices": [self._whole_choice(index, choice) for index, choice in enumerate(choices)],
            "usage": usage(generation, choices),
            "kv_transfer_params": kv_transfer_params,
        }
        return msgspec.json.encode(body)

    def token_event(self, index: int, position: int) -> bytes:
        """The event of one token; the first one of a chat choice is led by the event that names the role."""
        choice = self._ticket.choices[index]
        last = choice.finish_reason is not None and position == choice.emitted - 1
        text = "" if last and choice.finish_reason == "stop" else self._texts[index].next_token()
        # Words of the vocabulary need no escapes, and this runs once for every token.
        payload = f'"delta":{{"content":"{text}"}}' if self._chat else f'"text":"{text}"'
        event = self._choice_event(index, payload, choice.finish_reason if last else None)
        if position == 0 and self._chat:
            return self._choice_event(index, '"delta":{"role":"assistant","content":""}', None) + event
        return event

    def usage_event(self) -> bytes:
        counts = msgspec.json.encode(usage(self._generation, self._ticket.choices))
        return b'%b,"choices":[],"usage":%b}\n\n' % (self._event_head, counts)

    def _choice_event(self, index: int, payload: str, finish_reason: str | None) -> bytes:
        end = f'"{finish_reason}","stop_reason":null' if finish_reason else "null"
        choice = f'{{"index":{index},{payload},"logprobs":null,"finish_reason":{end}}}'
        return b'%b,"choices":[%b]}\n\n' % (self._event_head, choice.encode())

    def _whole_choice(self, index: int, choice: Choice) -> dict[str, object]:
        words = choice.emitted - 1 if choice.finish_reason == "stop" else choice.emitted
        text = self._texts[index].text(words)
        content = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        return {
            "index": index,
            **content,
            "logprobs": None,
            "finish_reason": choice.finish_reason,
            "stop_reason": None,
        }
