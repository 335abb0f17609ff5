"""Forms of OpenAI's transcriptions and translations: an audio file and options."""

from __future__ import annotations

from array import array
from typing import Final

import msgspec
import xxhash

from headgate.requests.bodies import forms
from headgate.requests.refusal import Refusal
from headgate.simulator.model import LARGEST_TOKEN, tokenize
from headgate.simulator.server.errors import ApiError, wrong
from headgate.simulator.server.generation import Generation

MAX_AUDIO_TOKENS: Final = 1500
"""Of one file: an encoder such as Whisper's takes 30 s at a time, and 50 tokens a second."""
FORMATS: Final = ("json", "text", "verbose_json")
_TEXTS: Final = frozenset({b"model", b"stream", b"prompt", b"language", b"response_format"})
_FILES: Final = frozenset({b"file"})
_TRUE: Final = (b"true", b"1", b"True")


class Spoken(msgspec.Struct, frozen=True):
    """A request for the text of an audio file."""

    generation: Generation
    format: str
    language: str
    seconds: float
    """Of audio, estimated from its bytes."""


def read_audio(content_type: str, body: bytes) -> Spoken:
    """Read the form; raises `ApiError` that names the part."""
    found = forms.values([(b"content-type", content_type.encode("latin-1"))], body, _TEXTS, _FILES)
    if found is None:
        raise ApiError(400, "The body must be multipart/form-data with the parts `file` and `model`")
    if isinstance(found, Refusal):
        raise ApiError(400, found.message)
    for name in ("file", "model"):
        if not found.get(name.encode()):
            raise wrong(name, "is required in the form")
    told = {name: value.decode("utf-8", "replace") for name, value in found.items() if name != b"file"}
    shape = told.get(b"response_format") or "json"
    if shape not in FORMATS:
        raise wrong("response_format", f"{shape!r} is not simulated, only {', '.join(FORMATS)} are")
    audio = found[b"file"]
    tokens = min(len(audio) // forms.BYTES_PER_TOKEN + 1, MAX_AUDIO_TOKENS)
    first = xxhash.xxh32_intdigest(audio)
    prompt = array("I", [(first + position) & LARGEST_TOKEN for position in range(tokens)])
    prompt += tokenize(told.get(b"prompt", ""))
    return Spoken(
        generation=Generation(
            model=told[b"model"], prompts=(prompt,), stream=found.get(b"stream", b"") in _TRUE
        ),
        format=shape,
        language=told.get(b"language") or "en",
        seconds=tokens / 50,
    )
