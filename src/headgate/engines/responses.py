"""Parses engine responses other than text: the list of models, and the cached part of a prompt."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

MAX_MODELS = 10_000
MAX_NAME_CHARACTERS = 1024
MAX_BRACES = 4 * MAX_MODELS
"""Objects in a list, including nested ones: a list with more is not decoded, as 400,000 models fit into 4
MB."""


class Models(NamedTuple):
    """The model names of a server, and those of them that it lists as adapters."""

    names: frozenset[str]
    adapters: frozenset[str]


class _Model(msgspec.Struct):
    id: str
    parent: msgspec.Raw = msgspec.Raw(b"null")
    """Not decoded: a million empty lists fit into it."""


class _Models(msgspec.Struct):
    data: list[_Model]


_decoder = msgspec.json.Decoder(_Models)
_NO_PARENT = (b"null", b'""')


def read_models(body: bytes) -> Models:
    """Parse the response to GET /v1/models. Raises ValueError if it is invalid."""
    if body.count(b"{") > MAX_BRACES:
        raise ValueError(f"a list of more than {MAX_MODELS} models")
    try:
        found = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a list of models: {error}") from error
    if len(found.data) > MAX_MODELS:
        raise ValueError(f"a list of {len(found.data)} models, which is more than {MAX_MODELS}")
    named = [model for model in found.data if 0 < len(model.id) <= MAX_NAME_CHARACTERS]
    return Models(
        frozenset(model.id for model in named),
        frozenset(model.id for model in named if bytes(model.parent).strip() not in _NO_PARENT),
    )


def read_parents(body: bytes) -> dict[str, str]:
    """The model that each listed adapter belongs to; empty where that is not a name. Raises ValueError."""
    adapters = read_models(body).adapters
    return {model.id: _name(model.parent) for model in _decoder.decode(body).data if model.id in adapters}


def _name(raw: msgspec.Raw) -> str:
    if len(bytes(raw)) > 4 * MAX_NAME_CHARACTERS:
        return ""
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Details(msgspec.Struct, frozen=True):
    """Details of a prompt's tokens."""

    cached_tokens: Count | None = None


class CachedTokens(msgspec.Struct, frozen=True):
    """The cached tokens in `usage`, by the names of the chat, responses, messages and realtime APIs."""

    prompt_tokens_details: Details | None = None
    input_tokens_details: Details | None = None
    input_token_details: Details | None = None
    cache_read_input_tokens: Count | None = None

    @property
    def cached(self) -> int | None:
        """Tokens of the prompt that were in the engine's cache; None if not reported."""
        details = self.prompt_tokens_details or self.input_tokens_details or self.input_token_details
        return self.cache_read_input_tokens if details is None else details.cached_tokens
