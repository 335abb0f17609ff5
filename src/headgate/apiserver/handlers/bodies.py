"""Reading request bodies: bounded, JSON or YAML, with duplicate fields told."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml
from starlette.requests import ClientDisconnect, Request

from headgate.apiserver import errors, patch, protobuf
from headgate.apiserver.calls import Call

__all__ = ["MAX_DEPTH", "check_bounds"]

# How many values one object may have, and how deep: what judging it costs goes by their number, and what
# can be decoded at all must not depend on the stack of an interpreter.
#
# The largest objects that are met are CustomResourceDefinitions of a megabyte, with some thirty thousand.
MAX_VALUES: Final = 100_000
"""Fields of maps and items of lists, at any depth; managedFields, which name each field again, included."""
MAX_DEPTH: Final = 500
"""Maps and lists in each other. Decoders on Python 3.11 read some 1,000, later ones many more."""


def check_bounds(value: Any) -> None:
    """413 if a value has too many values in it, 400 if they are nested too deeply."""
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
    """`check` for what a body was decoded to. Short ones keep both limits."""
    if len(body) > MAX_DEPTH:  # a level takes a byte at least
        check_bounds(value)


MAX_BODY_BYTES = 3 * 1024 * 1024
"""Kubernetes' limit for a request."""
MAX_QUESTION_BYTES = 64 * 1024
"""Limit for bodies that are questions or options: reviews, evictions, bindings, options of a delete."""
MAX_YAML_BYTES = 256 * 1024
"""YAML is read twenty times more slowly than JSON."""
_QUICKLY_READ_BYTES = 2 * 1024
"""Of YAML: on the event loop, while everybody else waits."""
MAX_PATH = 1000
"""Characters of a path in a complaint."""
JSON, YAML = "application/json", "application/yaml"


class SlowYAMLError(Exception):
    """A body is YAML, and too long to be decoded on the event loop."""


async def read(request: Request, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The whole body, once it is this user's turn; 413, or 429 while he has too much under way."""
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
    """The small object that asks for something, or says how something is to be done; empty without a body."""
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
    """Any JSON value, and the complaints about its duplicate fields."""
    value = msgspec.json.decode(body)
    check_body_bounds(body, value)
    if _texts(body) != _texts(msgspec.json.encode(value)):  # of a field that is repeated only one is left
        found = _duplicates(json.loads(body, object_pairs_hook=_Pairs), "")
        return value, list(itertools.islice(found, errors.MAX_CAUSES))
    return value, []


def decode_object(
    body: bytes, content_type: str, *, quickly: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """An object and the complaints about its duplicate fields. JSON is YAML, so it is tried first.

    Raises SlowYAMLError for YAML that takes long, if it is to be done quickly.
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
    """What clients in Go send of Kubernetes' own kinds; they do not try JSON after a 415."""
    try:
        return protobuf.decode(body)
    except protobuf.UnknownKindError as error:
        raise errors.unsupported_media_type((JSON, YAML)) from error
    except protobuf.ProtobufError as error:
        raise errors.bad_request(f"the object provided is unrecognized: {error}") from error


def _texts(body: bytes) -> int:
    """How often a text, which may be the name of a field, begins or ends in JSON."""
    if b"\\" not in body:
        return body.count(b'"')
    plain = body.replace(rb"\\", b"")  # so that each backslash that is left escapes what follows it
    return plain.count(b'"') - plain.count(rb"\"")


class _Pairs(list[tuple[str, Any]]):
    """The fields of a JSON object as they came."""


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
    """The path of a field; of one that is too long to be read, the beginning."""
    return f"{path}.{name}"[:MAX_PATH] if path else name[:MAX_PATH]


if yaml.__with_libyaml__:
    from yaml import CSafeLoader as _SafeLoader  # five times as fast
else:
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]


class _Loader(_SafeLoader):
    """YAML as far as JSON goes: no timestamps."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self.duplicates: list[str] = []

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                at = key.start_mark.line + 1
                self.duplicates.append(f'line {at}: key "{key.value}" already set in map')
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return super().construct_mapping(node, deep)


def _check_yaml(body: bytes) -> None:
    """Refuses aliases, which make gigabytes out of a line, and nesting that no stack has room for."""
    depth = 0
    for event in yaml.parse(body, _Loader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not taken")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise errors.too_deep(MAX_DEPTH)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _decode_yaml(body: bytes) -> tuple[Any, list[str]]:
    """The value of a YAML document, and complaints about keys that are there twice; the last one counts."""
    if len(body) > MAX_YAML_BYTES:
        raise errors.too_large(MAX_YAML_BYTES, " of YAML: send JSON")
    try:
        _check_yaml(body)
        loader = _Loader(body)
        try:
            loaded = loader.get_single_data()
        finally:
            loader.dispose()
        # Whatever YAML has and JSON has not (sets, binary, NaN keys) is refused here.
        return msgspec.json.decode(msgspec.json.encode(loaded)), loader.duplicates
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from error
