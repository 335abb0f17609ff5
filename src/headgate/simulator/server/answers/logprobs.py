"""Made-up log probabilities in OpenAI's two shapes; the same text has the same ones."""

import zlib
from typing import Any

MOST_LIKELY = -0.05
STEP = -1.25


def _logprob(token: str) -> float:
    return MOST_LIKELY - (zlib.crc32(token.encode("utf-8", "surrogatepass")) % 1000) / 2000


def _alternatives(token: str, number: int) -> list[tuple[str, float]]:
    """The token, and less likely ones."""
    first = _logprob(token)
    return [(token if rank == 0 else f"{token}~{rank}", first + rank * STEP) for rank in range(number)]


def of_chat(tokens: list[str], number: int) -> dict[str, list[dict[str, Any]]]:
    """For /v1/chat/completions, and each entry of it for /v1/responses."""
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
