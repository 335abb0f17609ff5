"""Answers in token ids, as vLLM's /inference/v1/generate gives them."""

from typing import Any

import msgspec

from headgate.simulator.model import LARGEST_TOKEN
from headgate.simulator.server.answers.answer import Answer, finish_reason
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.live import Choice
from headgate.simulator.server.script import Script
from headgate.simulator.server.tokenizing import tokenize

END_OF_SEQUENCE = LARGEST_TOKEN
"""The id of the token that has no text; it has none in /detokenize either."""
DONE = b"data: [DONE]\n\n"


class TokensAnswer(Answer):
    """/inference/v1/generate."""

    def whole(self, kv_transfer_params: object = None) -> bytes:
        choices = [
            self._choice(index, ids_of(self.scripts[index], choice.emitted), choice)
            for index, choice in enumerate(self.ticket.choices)
        ]
        return msgspec.json.encode(
            {
                "request_id": self.answer_id,
                "choices": choices,
                "prompt_logprobs": None,
                "kv_transfer_params": kv_transfer_params,
                "ec_transfer_params": self.ec_transfer_params,
            }
        )

    def token(self, index: int, position: int) -> bytes:
        choice = self.ticket.choices[index]
        ids = ids_of(self.scripts[index], min(1, choice.emitted))
        ended = choice if self.is_last(choice, position) else None
        return self._event({"choices": [self._choice(index, ids, ended)]})

    def end(self) -> bytes:
        if not self.generation.include_usage:
            return DONE
        counts = self.counts()
        usage = {
            "prompt_tokens": counts.prompt,
            "total_tokens": counts.prompt + counts.output,
            "completion_tokens": counts.output,
            "prompt_tokens_details": {"cached_tokens": counts.cached},
        }
        return self._event({"choices": [], "usage": usage}) + DONE

    def failed(self, error: ApiError) -> bytes:
        return b"data: " + error.body() + b"\n\n" + DONE

    def _choice(self, index: int, ids: list[int], ended: Choice | None) -> dict[str, Any]:
        reason = finish_reason(ended, self.scripts[index]) if ended else None
        return {"index": index, "logprobs": None, "finish_reason": reason, "token_ids": ids}

    def _event(self, fields: dict[str, Any]) -> bytes:
        return b"data: %b\n\n" % msgspec.json.encode({"request_id": self.answer_id, **fields})


def ids_of(script: Script, tokens: int) -> list[int]:
    """The next tokens; a piece of an echo that has several bytes a character may be more than one."""
    ids: list[int] = []
    for _ in range(tokens):
        ids += tokenize(script.next()) or [END_OF_SEQUENCE]
    return ids
