"""vLLM's gRPC service (`vllm.grpc.engine.VllmEngine`): what its messages say about prompts and token counts.

A prompt comes as token ids. Messages are framed as in gRPC: one byte that says whether they are compressed,
and their length in four bytes. Field numbers are those of the service's definition.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.protobuf_wire import BYTES, VARINT, Value, WireError, fields

GENERATE: Final = "/vllm.grpc.engine.VllmEngine/Generate"
EMBED: Final = "/vllm.grpc.engine.VllmEngine/Embed"
FRAME_BYTES: Final = 5
"""Before each message."""

_TOKENIZED, _TEXT, _SAMPLING, _STREAM = 2, 3, 4, 5
_INPUT_IDS, _MAX_TOKENS = 2, 8
_CHUNK, _COMPLETE = 1, 2
_COUNTS: Final = {_CHUNK: (2, 3, 4), _COMPLETE: (3, 4, 5)}
"""The fields with the tokens of the prompt, of the response, and of the prompt as far as it was cached."""


class Prompt(NamedTuple):
    """A request."""

    tokens: int
    """0 if the prompt is text, or cannot be read."""
    content: bytes
    """The prompt: its token ids as they are encoded, or its text."""
    most_tokens: int | None
    """Of the response, if the request says it."""
    is_stream: bool


UNREADABLE: Final = Prompt(0, b"", None, False)


class Counts(NamedTuple):
    """Tokens, as the engine counted them."""

    prompt: int
    completion: int
    cached: int


def read_request(path: str, body: bytes) -> Prompt | None:
    """The prompt in the body of a call; None for other calls. A message that cannot be read is left to the
    engine."""
    if path not in (GENERATE, EMBED):
        return None
    if len(body) < FRAME_BYTES or body[0]:
        return UNREADABLE
    try:
        return _prompt(memoryview(body)[FRAME_BYTES:])
    except WireError:
        return UNREADABLE


def _prompt(data: memoryview) -> Prompt:
    tokens, content, most_tokens, is_stream = 0, b"", None, False
    for number, wire_type, value in fields(data):
        if isinstance(value, int):
            is_stream = bool(value) if number == _STREAM else is_stream
        elif number == _TOKENIZED and wire_type == BYTES:
            tokens, content = _tokenized(value)
        elif number == _TEXT and wire_type == BYTES:
            content = bytes(value)
        elif number == _SAMPLING and wire_type == BYTES:
            most_tokens = _number(value, _MAX_TOKENS)
    return Prompt(tokens, content, most_tokens, is_stream)


def _tokenized(data: memoryview) -> tuple[int, bytes]:
    """The number of token ids, and the ids as they are encoded: packed, or each in a field of its own."""
    packed, single = b"", 0
    for number, _, value in fields(data):
        if number != _INPUT_IDS:
            continue
        if isinstance(value, int):
            single += 1
        else:
            packed += bytes(value)
    # The last byte of each number has its highest bit clear.
    count = sum(map(_IS_LAST.__getitem__, packed))
    return count + single, packed


_IS_LAST: Final = tuple(byte < 0x80 for byte in range(256))


def _number(data: memoryview, wanted: int) -> int | None:
    found: Value | None = None
    for number, wire_type, value in fields(data):
        if number == wanted and wire_type == VARINT:
            found = value
    return found if isinstance(found, int) else None


def read_counts(message: bytes) -> Counts | None:
    """The counts in a message of the response; None if there are none."""
    try:
        for number, wire_type, value in fields(memoryview(message)):
            if number in _COUNTS and wire_type == BYTES and not isinstance(value, int):
                prompt, completion, cached = (_number(value, each) or 0 for each in _COUNTS[number])
                return Counts(prompt, completion, cached) if prompt or completion else None
    except WireError:
        return None
    return None
