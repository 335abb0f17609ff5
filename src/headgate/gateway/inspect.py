"""Reads the few fields of a request body that routing needs, and splices another model name into it.

The body stays as the client sent it: unknown fields, key order, numbers of any size.
"""

from __future__ import annotations

import json
import re

import msgspec

from headgate.gateway.refusals import Refusal

_ABSENT = msgspec.Raw(b"")


class Fields(msgspec.Struct, frozen=True, gc=False):
    """What is decoded of a body; everything else is skipped over.

    Members that make up the prompt are only found, not decoded, which costs no more than to skip them.
    """

    model: str | None = None
    stream: bool | None = None
    stream_options: msgspec.Raw = _ABSENT
    messages: msgspec.Raw = _ABSENT
    prompt: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    system: msgspec.Raw = _ABSENT
    instructions: msgspec.Raw = _ABSENT
    cache_salt: msgspec.Raw = _ABSENT
    max_tokens: msgspec.Raw = _ABSENT
    max_completion_tokens: msgspec.Raw = _ABSENT
    max_output_tokens: msgspec.Raw = _ABSENT

    @property
    def most_tokens(self) -> int | None:
        """How long the answer may be; None without a limit, and where it is for the engine to refuse it."""
        limit = self.max_tokens or self.max_completion_tokens or self.max_output_tokens
        if not limit:
            return None
        digits = bytes(limit)
        return int(digits) if len(digits) < 10 and digits.isdigit() else None


_decode = msgspec.json.Decoder(Fields).decode


def inspect(body: bytes) -> Fields | Refusal:
    """The routing fields of a JSON body, or why it cannot be routed (R16)."""
    try:
        fields = _decode(body)
    except msgspec.ValidationError as error:
        return _wrong_field(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Refusal.bad_request(f"the request body is not valid JSON: {error}", code="invalid_json")
    if fields.model is None or not fields.model.strip():
        return Refusal.bad_request(
            "the request names no model: set `model` to one of GET /v1/models",
            param="model",
            code="model_missing",
        )
    return fields


def _wrong_field(reason: str) -> Refusal:
    """msgspec says "Expected `str | null`, got `int` - at `$.model`"."""
    expected, _, path = reason.partition(" - at ")
    param = path.strip("`").removeprefix("$.") or None
    where = f"`{param}`" if param else "the request body"
    return Refusal.bad_request(f"{where}: {expected}", param=param, code="invalid_type")


_MODEL_MEMBER = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')


def replace_model(body: bytes, model: str) -> bytes:
    """The body with another value for its top-level `model`, every other byte as it was.

    `body` must have passed `inspect`, and `model` be another than its own. The first member that looks
    right almost always is; the body, decoded again, says so. Where it is not (a nested object, a
    duplicate, a key with escapes), the members are walked, in time linear in the body. Raises
    RecursionError for bodies that are nested very deeply.
    """
    value = json.dumps(model).encode()
    found = _MODEL_MEMBER.search(body)
    if found is not None:
        spliced = _splice(body, found.start(1), found.end(1), value)
        if _decode(spliced).model == model:
            return spliced
    return _splice(body, *_find_member(body, "model"), value)


def ask_for_usage(body: bytes, fields: Fields) -> bytes | None:
    """The body of a streamed request with `stream_options.include_usage`; None if it has that itself.

    Other options stay. Options that are no object are left to the engine, which refuses them.
    """
    asked = bytes(fields.stream_options)
    if not asked:
        end = body.rindex(b"}")
        return b'%b,"stream_options":{"include_usage":true}}' % body[:end]
    try:
        options = _decode_options(asked) or {}
    except msgspec.DecodeError:
        return None
    if bytes(options.get("include_usage", b"")) == b"true":
        return None
    options["include_usage"] = msgspec.Raw(b"true")
    try:
        place = _find_member(body, "stream_options")
    except RecursionError:
        return None
    return _splice(body, *place, msgspec.json.encode(options))


_decode_options = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode


def _splice(body: bytes, start: int, end: int, value: bytes) -> bytes:
    return b"".join((body[:start], value, body[end:]))


_scan = json.JSONDecoder(parse_int=float, strict=False).raw_decode
_SPACE = re.compile(r"[ \t\n\r]*")


def _find_member(body: bytes, member: str) -> tuple[int, int]:
    """Where the value of a top-level member stands; of duplicates the last, which counts."""
    text = body.decode("latin-1")  # one character for each byte, so that places stay what they are
    start = end = 0
    at = _skip_space(text, 0)
    while text[at] != "}":
        key, at = _scan(text, _skip_space(text, at + 1))
        value_at = _skip_space(text, _skip_space(text, at) + 1)
        _, at = _scan(text, value_at)
        if key == member:
            start, end = value_at, at
        at = _skip_space(text, at)
    return start, end


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
