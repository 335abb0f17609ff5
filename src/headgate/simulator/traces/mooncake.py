"""Mooncake's format: a JSON object on each line, with the hashes of the prompt's blocks.

As published with the paper (FAST '25), `FAST25-release/traces/` of kvcache-ai/Mooncake: `timestamp` in
milliseconds, `input_length` and `output_length` in tokens, `hash_ids` of blocks of 512 tokens, each hash over
its block and all before it. Other fields are passed over.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from headgate.simulator.traces.lines import LineError, shown
from headgate.simulator.traces.timed import TimedRequest

BLOCK_TOKENS = 512
MAX_TOKENS = 100_000_000
_MAX_MS = 10 * 366 * 86_400_000
_PATH = re.compile(r" - at `\$\.?([^`]*)`$")
_LACKS = re.compile(r"Object missing required field `(\w+)`")


class _Line(msgspec.Struct):
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=_MAX_MS)]
    input_length: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]
    output_length: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]
    hash_ids: tuple[int, ...]


_WANTED = {
    "timestamp": "milliseconds since the trace began, at least 0",
    "input_length": "a whole number of tokens, at least 1",
    "output_length": "a whole number of tokens, at least 1",
    "hash_ids": "a list of whole numbers",
}
_decode = msgspec.json.Decoder(_Line).decode


class Mooncake:
    """Reads lines of Mooncake's traces."""

    def __init__(self, block_tokens: int = BLOCK_TOKENS) -> None:
        self.block_tokens = block_tokens

    def read(self, line: bytes) -> TimedRequest:
        try:
            record = _decode(line)
        except msgspec.ValidationError as error:
            raise _explained(line, str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LineError(f"is not JSON: {error}", fix="each line is one object") from None
        blocks = -(-record.input_length // self.block_tokens)
        if len(record.hash_ids) != blocks:
            raise LineError(
                f"{len(record.hash_ids)} hashes for {record.input_length} tokens, which are {blocks} blocks "
                f"of {self.block_tokens}",
                field="hash_ids",
                fix="say how many tokens a block of this trace has (--block-tokens)",
            )
        return TimedRequest(
            at_s=record.timestamp / 1000,
            prompt_tokens=record.input_length,
            output_tokens=record.output_length,
            prefix=record.hash_ids,
            block_tokens=self.block_tokens,
        )


def _explained(line: bytes, told: str) -> LineError:
    """What is wrong with a line that is JSON, in the words of the format."""
    if missing := _LACKS.search(told):
        return LineError("is missing", field=missing[1], fix=f"it is {_WANTED[missing[1]]}")
    path = _PATH.search(told)
    if path is None or not path[1]:
        wanted = ", ".join(_WANTED)
        return LineError("is not an object", fix=f"each line is one with {wanted}")
    value: Any = msgspec.json.decode(line)
    field = path[1].partition("[")[0]
    return LineError(f"{shown(value[field])} is not {_WANTED[field]}", field=field)
