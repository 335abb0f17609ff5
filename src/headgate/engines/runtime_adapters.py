"""How LoRA adapters are loaded into running engines, and what their lists of models show of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from headgate.engines.engine import Engine
from headgate.engines.responses import MAX_BRACES, MAX_MODELS, MAX_NAME_CHARACTERS

MAX_MESSAGE_CHARACTERS: Final = 500


class AdapterCalls(NamedTuple):
    """The API of an engine for its adapters: POST of JSON with `lora_name`, and `lora_path` to load it."""

    load: str
    unload: str
    enable: str
    """How to start the engine so that it has this API."""


_CALLS: Final[Mapping[str, AdapterCalls]] = {
    "vLLM": AdapterCalls(
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "start vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1",
    ),
    "SGLang": AdapterCalls(
        "/load_lora_adapter", "/unload_lora_adapter", "start SGLang with --enable-lora and --max-lora-rank"
    ),
}


def adapter_calls(engine: Engine) -> AdapterCalls | None:
    """None if the engine cannot load adapters while it runs."""
    return _CALLS.get(engine.name)


class Listed(NamedTuple):
    """The adapters of a list of models."""

    roots: Mapping[str, str]
    """Directory of each adapter, by name; empty if the list does not have it."""
    is_complete: bool
    """Whether the list has adapters at all: those of some older releases have none."""


class _Model(msgspec.Struct):
    id: str
    parent: msgspec.Raw = msgspec.Raw(b"")
    root: msgspec.Raw = msgspec.Raw(b"")


class _Models(msgspec.Struct):
    data: list[_Model]


_decoder = msgspec.json.Decoder(_Models)
_NO_PARENT = (b"", b"null", b'""')


def read_adapters(body: bytes) -> Listed:
    """Parse the response to GET /v1/models. Raises ValueError if it is invalid."""
    if body.count(b"{") > MAX_BRACES:
        raise ValueError(f"a list of more than {MAX_MODELS} models")
    try:
        models = _decoder.decode(body).data
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a list of models: {error}") from error
    roots = {
        model.id: _text(model.root)
        for model in models
        if bytes(model.parent).strip() not in _NO_PARENT and len(model.id) <= MAX_NAME_CHARACTERS
    }
    return Listed(roots, any(bytes(model.parent) for model in models))


def _text(raw: msgspec.Raw) -> str:
    if len(bytes(raw)) > 4096:
        return ""
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


class _Nested(msgspec.Struct):
    message: str = ""


class _Refusal(msgspec.Struct):
    """The forms of errors: OpenAI's, vLLM's older one, SGLang's, and that of the framework of both."""

    error: _Nested | str = ""
    message: str = ""
    error_message: str = ""
    detail: str = ""
    success: bool | None = None


_refusals = msgspec.json.Decoder(_Refusal)


def refusal(status: int, body: bytes, calls: AdapterCalls) -> str:
    """Why an engine did not load or unload an adapter, for people; empty if it did."""
    try:
        found = _refusals.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = _Refusal()
    if status == 200 and found.success is not False:
        return ""
    nested = found.error if isinstance(found.error, str) else found.error.message
    told = nested or found.message or found.error_message or found.detail
    if status in (404, 405) and told in ("Not Found", "Method Not Allowed", ""):
        return f"the engine has no {calls.load}: {calls.enable}"
    told = "".join(each if each.isprintable() else " " for each in told[:MAX_MESSAGE_CHARACTERS])
    return f"the engine responded with status {status}" + (f": {told}" if told else "")
