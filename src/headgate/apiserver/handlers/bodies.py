"""Read request bodies: bounded, JSON or YAML, with duplicate fields reported."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml
from starlette.requests import ClientDisconnect, Request

from headgate import bounded_yaml
from headgate.apiserver import errors, patch, protobuf
from headgate.apiserver.calls import Call

__all__ = ["MAX_DEPTH", "check_bounds"]

# Limits on the number of values in one object, and on their nesting: validation cost grows with the number,
# and what can be decoded must not depend on the interpreter's stack.
#
# The largest objects in practice are CustomResourceDefinitions of a megabyte, with some thirty thousand
# values.
MAX_VALUES: Final = 100_000
"""Fields of maps and items of lists at any depth, including managedFields, which repeat every field name."""
MAX_DEPTH: Final = 500
"""Nested maps and lists. Decoders on Python 3.11 support some 1,000, later ones many more."""


def check_bounds(value: Any) -> None:
    """413 if a value contains too many values, 400 if they are nested too deeply."""
    count = depth = 0
    level = [value] if isinstance(value, dict | list) else []
    while level:
        count += sum(map(len, level))
        depth += 1
        if count > MAX_VALUES:
            raise errors.too_many_values(MAX_VALUES)
        if depth > MAX_DEPTH:
            raise errors.too_deep(MAX_DEPTH)
        level = [
            inner
            for composed in level
            for inner in (composed.values() if isinstance(composed, dict) else composed)
            if isinstance(inner, dict | list)
        ]


def check_body_bounds(body: bytes, value: Any) -> None:
    """`check_bounds` for a decoded body. Short bodies satisfy both limits."""
    if len(body) > MAX_DEPTH:  # a level takes at least a byte
        check_bounds(value)


MAX_BODY_BYTES = 3 * 1024 * 1024
"""Kubernetes' limit for a request."""
MAX_QUESTION_BYTES = 64 * 1024
"""Limit for reviews, evictions, bindings and delete options."""
MAX_YAML_BYTES = 256 * 1024
"""YAML takes twenty times as long to parse as JSON."""
_QUICKLY_READ_BYTES = 2 * 1024
"""YAML up to this size is parsed on the event loop, which blocks other requests."""
MAX_PATH = 1000
"""Maximum length of a path in a message."""
JSON, YAML = "application/json", "application/yaml"


class SlowYAMLError(Exception):
    """The body is YAML that is too long to be parsed on the event loop."""


async def read(request: Request, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Read the whole body, then wait for this user's turn; 413, or 429 if they have too much in progress."""
    call: Call = request.scope["call"]
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit_bytes:
        raise errors.too_large(limit_bytes)
    body, more = b"", True
    parts: list[bytes] = []
    size = 0
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body, more = message.get("body", b""), message.get("more_body", False)
        size += len(body)
        if size > limit_bytes:
            raise errors.too_large(limit_bytes)
        call.hold_body(len(body))
        parts.append(body)
    await call.turn()
    return b"".join(parts) if len(parts) > 1 else body


async def read_question(request: Request) -> dict[str, Any]:
    """The small object with the request's options or question; empty without a body."""
    body, content_type = await read(request, MAX_QUESTION_BYTES), media_type(request)
    if not body:
        return {}
    try:
        return decode_object(body, content_type, quickly=True)[0]
    except SlowYAMLError:
        call: Call = request.scope["call"]
        decoded, _ = await call.in_thread(lambda: decode_object(body, content_type))
        await call.next_turn()
        return decoded


def media_type(request: Request) -> str:
    return request.headers.get("content-type", JSON).partition(";")[0].strip().lower()


def decode_json(body: bytes) -> tuple[Any, list[str]]:
    """Any JSON value, and messages about duplicate fields."""
    value = msgspec.json.decode(body)
    check_body_bounds(body, value)
    if _texts(body) != _texts(msgspec.json.encode(value)):  # decoding drops repeated fields
        found = _duplicates(json.loads(body, object_pairs_hook=_Pairs), "")
        return value, list(itertools.islice(found, errors.MAX_CAUSES))
    return value, []


def decode_object(
    body: bytes, content_type: str, *, quickly: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """An object, and messages about duplicate fields. JSON is YAML, so it is tried first.

    With `quickly`, raises SlowYAMLError for YAML that takes long.
    """
    if content_type == protobuf.MEDIA_TYPE:
        obj = _decode_protobuf(body)
        check_body_bounds(body, obj)
        return obj, []
    if content_type not in (JSON, YAML, patch.APPLY_MEDIA_TYPE):
        raise errors.unsupported_media_type((JSON, YAML))
    duplicates: list[str] = []
    try:
        obj, duplicates = decode_json(body)
    except msgspec.DecodeError:
        if content_type == JSON:
            raise
        if quickly and len(body) > _QUICKLY_READ_BYTES:
            raise SlowYAMLError from None
        obj, duplicates = _decode_yaml(body)
        check_body_bounds(body, obj)
    if not isinstance(obj, dict):
        raise errors.bad_request(f"the body must be an object, not {type(obj).__name__}")
    return obj, duplicates


def _decode_protobuf(body: bytes) -> dict[str, Any]:
    """Go clients send Kubernetes' own kinds as protobuf; they do not retry with JSON after a 415."""
    try:
        return protobuf.decode(body)
    except protobuf.UnknownKindError as error:
        raise errors.unsupported_media_type((JSON, YAML)) from error
    except protobuf.ProtobufError as error:
        raise errors.bad_request(f"the object provided is unrecognized: {error}") from error


def _texts(body: bytes) -> int:
    """How many quotes, which begin or end strings and field names, are in the JSON."""
    if b"\\" not in body:
        return body.count(b'"')
    plain = body.replace(rb"\\", b"")  # so that each remaining backslash escapes what follows it
    return plain.count(b'"') - plain.count(rb"\"")


class _Pairs(list[tuple[str, Any]]):
    """The fields of a JSON object, in order."""


def _duplicates(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen = set()
        for name, inner in value:
            if name in seen:
                yield f'duplicate field "{_joined(path, name)}"'
            seen.add(name)
            if isinstance(inner, list):  # _Pairs are lists too
                yield from _duplicates(inner, _joined(path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, list):
                yield from _duplicates(item, f"{path}[{index}]")


def _joined(path: str, name: str) -> str:
    """The path of a field, truncated if it is too long to read."""
    return f"{path}.{name}"[:MAX_PATH] if path else name[:MAX_PATH]


class _Loader(bounded_yaml.NotingLoader):
    """YAML limited to JSON's types: no timestamps."""

    yaml_implicit_resolvers = bounded_yaml.WITHOUT_TIMES


def _decode_yaml(body: bytes) -> tuple[Any, list[str]]:
    """The value of a YAML document, and messages about duplicate keys; the last one counts."""
    if len(body) > MAX_YAML_BYTES:
        raise errors.too_large(MAX_YAML_BYTES, " of YAML: send JSON")
    try:
        bounded_yaml.check(body, MAX_DEPTH)
        loader = _Loader(body)
        try:
            loaded = loader.get_single_data()
        finally:
            loader.dispose()
        # Anything in YAML that JSON does not have (sets, binary, NaN keys) is rejected here.
        duplicates = [f'line {line}: key "{name}" already set in map' for name, line in loader.repeated]
        return msgspec.json.decode(msgspec.json.encode(loaded)), duplicates
    except bounded_yaml.TooDeepError as error:
        raise errors.too_deep(MAX_DEPTH) from error
    except bounded_yaml.AliasError as error:
        raise errors.bad_request("error decoding YAML: aliases are not taken") from error
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from error
    except (LookupError, AttributeError) as error:  # of the constructors, such as that of !!bool
        raise errors.bad_request("error decoding YAML: a value does not fit its tag") from error
