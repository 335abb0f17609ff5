"""Reads the few fields of a request body that routing needs, and replaces the model name in it.

All other bytes stay as the client sent them: unknown fields, key order, numbers of any size.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from headgate.engines import transfer
from headgate.requests.bodies import scan
from headgate.requests.bodies.members import Fields, decode
from headgate.requests.refusal import Refusal

MAX_NAME_CHARACTERS: Final = 1024
"""Limit for the name of a model."""
_MODELS: Final = frozenset(map("".join, itertools.product(*zip("model", "MODEL", strict=True))))
"""What some parsers take for `model`, as they ignore the case of letters."""
scanner = scan.Scanner(frozenset(Fields.__struct_fields__) | transfer.READ_MEMBERS | _MODELS)
"""Finds all members that the gateway reads or changes."""


def inspect(body: bytes) -> Fields | Refusal:
    """The routing fields of a JSON body, or why it cannot be routed.

    Takes up to 6 ns per byte, in one step: for large bodies, pass only the members that are needed.
    """
    try:
        fields = decode(body)
    except msgspec.ValidationError as error:
        return _wrong_field(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return invalid_json(_why_invalid(body, error))
    if fields.model is None or not fields.model.strip():
        return Refusal.bad_request(
            "the request has no model: set `model` to one of those that GET /v1/models lists",
            param="model",
            code="model_missing",
        )
    if len(fields.model) > MAX_NAME_CHARACTERS:
        return too_long("model", f"{MAX_NAME_CHARACTERS} characters")
    return fields


def invalid_json(why: str) -> Refusal:
    return Refusal.bad_request(f"the request body is not valid JSON: {why}", code="invalid_json")


def too_long(member: str, limit: str) -> Refusal:
    return Refusal.bad_request(f"`{member}` is longer than {limit}", param=member, code="member_too_long")


def _why_invalid(body: bytes, error: Exception) -> str:
    surrogate = scan.lone_surrogate(body)
    return f"{surrogate} is half of a surrogate pair" if surrogate else str(error)


def _wrong_field(reason: str) -> Refusal:
    """Parse msgspec's message, such as "Expected `str | null`, got `int` - at `$.model`"."""
    expected, _, path = reason.partition(" - at ")
    param = path.strip("`").removeprefix("$.") or None
    where = f"`{param}`" if param else "the request body"
    return Refusal.bad_request(f"{where}: {expected}", param=param, code="invalid_type")


_MODEL_MEMBER: Final = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')


def replace_model(body: bytes, model: str) -> bytes:
    """The body with another value for its top-level `model`, all other bytes unchanged.

    `body` must have passed `inspect`, and `model` must differ from its own. The first member that looks right
    almost always is; decoding the result confirms it. If it is not (a nested object, a duplicate, a key with
    escapes), the members are scanned. Raises ScanError for bodies that are nested very deeply or have very
    many duplicates.
    """
    value = json.dumps(model).encode()
    found = _MODEL_MEMBER.search(body)
    if found is not None:
        spliced = _splice(body, found.start(1), found.end(1), value)
        if decode(spliced).model == model:
            return spliced
    return _splice(body, *_find_member(body, "model"), value)


def has_one_model(members: Iterable[scan.Member]) -> bool:
    """Whether all parsers find the same model among these members of a body: some take the first of
    duplicates, or ignore the case of letters."""
    return sum(member.name in _MODELS for member in members) == 1


def names_one_model(body: bytes) -> bool:
    """The same for a whole body."""
    try:
        return has_one_model(scanner.members(body))
    except scan.ScanError:
        return False


def ask_for_usage(body: bytes, fields: Fields) -> bytes | None:
    """The body of a streamed request with `stream_options.include_usage` added; None if it is set already.

    Keeps other options. If `stream_options` is not an object, the body is left for the engine to reject.
    """
    asked = bytes(fields.stream_options)
    if not asked:
        end = body.rindex(b"}")
        return b'%b,"stream_options":{"include_usage":true}}' % body[:end]
    options = with_usage(asked)
    if options is None:
        return None
    try:
        place = _find_member(body, "stream_options")
    except scan.ScanError:
        return None
    return _splice(body, *place, options)


def with_usage(options: bytes) -> bytes | None:
    """The value of `stream_options` with `include_usage`; None if it is set already, or not an object."""
    try:
        members = _decode_options(options) or {}
    except msgspec.DecodeError:
        return None
    if bytes(members.get("include_usage", b"")) == b"true":
        return None
    members["include_usage"] = msgspec.Raw(b"true")
    return msgspec.json.encode(members)


_decode_options = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode


def _splice(body: bytes, start: int, end: int, value: bytes) -> bytes:
    return b"".join((body[:start], value, body[end:]))


def _find_member(body: bytes, name: str) -> tuple[int, int]:
    """Start and end of the value of a top-level member; of duplicates the last, which is the effective
    one."""
    member = [each for each in scanner.members(body) if each.name == name][-1]
    return member.value, member.end
