"""From bytes to an object: the envelope, then messages by their tables, bounded in depth and fields.

Go writes every field that is not a pointer, zero or not; JSON omits most of these. So zero counts as "not
set" unless the table marks the field as a pointer. An empty message is kept, because that is how `emptyDir:
{}` is encoded.
"""

from __future__ import annotations

import base64
import datetime
from typing import Any, Final

import msgspec

from headgate.apiserver.protobuf.tables import KINDS, MESSAGES, Field
from headgate.protobuf_wire import BYTES, VARINT, Value, WireError, fields, signed

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"

MAX_FIELDS: Final = 200_000
"""Per body, at all depths: an empty message takes two bytes, so the size alone is not enough of a limit."""
MAX_DEPTH: Final = 40

_MAGIC = b"k8s\x00"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

Object = dict[str, Any]


class ProtobufError(ValueError):
    """The body cannot be decoded; the message names the protobuf message and field."""


class UnknownKindError(ProtobufError):
    """The body is well-formed, but there is no table for its kind."""


def decode(body: bytes) -> Object:
    """The object in a body: `k8s\\0`, then a runtime.Unknown with the type and the bytes of the object."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("the body does not begin with the four bytes k8s\\0")
    reader = _Reader()
    try:
        envelope = reader.message("Unknown", memoryview(body)[len(_MAGIC) :], 0)
        type_ = envelope.get("typeMeta", {})
        api_version, kind = type_.get("apiVersion", ""), type_.get("kind", "")
        if (name := KINDS.get((api_version, kind))) is None:
            raise UnknownKindError(f"{kind or 'an object without kind'} of {api_version or 'no version'}")
        raw = base64.b64decode(envelope.get("raw", ""))
        return {"apiVersion": api_version, "kind": kind} | reader.message(name, memoryview(raw), 0)
    except WireError as error:
        raise ProtobufError(str(error)) from error


class _Reader:
    """Decodes one body, and counts its fields."""

    def __init__(self) -> None:
        self._left = MAX_FIELDS

    def message(self, name: str, data: memoryview, depth: int) -> Object:
        """Decode a message by the table of this name."""
        if depth > MAX_DEPTH:
            raise ProtobufError(f"messages are nested deeper than {MAX_DEPTH} levels")
        known = MESSAGES[name]
        obj: Object = {}
        for number, wire_type, value in fields(data):
            self._left -= 1
            if self._left < 0:
                raise ProtobufError(f"the body has more than {MAX_FIELDS} fields")
            if (field := known.get(number)) is None:
                raise ProtobufError(f"{name} has field {number}, which is not known here; send JSON instead")
            self._add(obj, field, f"{name}.{field.name}", wire_type, value, depth)
        return obj

    def _add(self, obj: Object, field: Field, where: str, wire_type: int, value: Value, depth: int) -> None:
        if field.form == "map":
            key, item = self._entry(field, where, wire_type, value, depth)
            obj.setdefault(field.name, {})[key] = item
            return
        read = self._value(field.type, where, wire_type, value, depth)
        if field.form == "inline":
            obj.update(read)
        elif field.form == "list":
            obj.setdefault(field.name, []).append(read)
        elif read is not None and (read or field.pointer or isinstance(read, dict)):
            obj[field.name] = read
        else:
            obj.pop(field.name, None)  # the last value of a field counts, even if it is zero

    def _entry(self, field: Field, where: str, wire_type: int, value: Value, depth: int) -> tuple[str, Any]:
        """Key and value of a map entry, a message with these two as fields 1 and 2."""
        key, item = "", "" if field.type in ("string", "bytes") else None
        for number, inner_type, inner in fields(_bytes(where, wire_type, value)):
            self._left -= 1
            if number == 1:
                key = _text(where, inner_type, inner)
            elif number == 2:
                item = self._value(field.type, where, inner_type, inner, depth)
            else:
                raise ProtobufError(f"{where}: an entry of a map has field {number}")
        return key, item

    def _value(self, type_: str, where: str, wire_type: int, value: Value, depth: int) -> Any:
        match type_:
            case "string":
                return _text(where, wire_type, value)
            case "int":
                return signed(_number(where, wire_type, value))
            case "bool":
                return bool(_number(where, wire_type, value))
        data = _bytes(where, wire_type, value)
        match type_:
            case "bytes":
                return base64.b64encode(data).decode()
            case "JSON":
                return _json(where, self.message("Raw", data, depth + 1))
            case "Quantity":
                return self.message("Quantity", data, depth + 1).get("string", "0")
            case "Time":
                return _time(where, self.message("Time", data, depth + 1), "seconds")
            case "MicroTime":
                return _time(where, self.message("Time", data, depth + 1), "microseconds")
            case "IntOrString":
                either = self.message("IntOrString", data, depth + 1)
                return either.get("strVal", "") if either.get("type") else either.get("intVal", 0)
        return self.message(type_, data, depth + 1)


def _number(where: str, wire_type: int, value: Value) -> int:
    if wire_type != VARINT or not isinstance(value, int):
        raise ProtobufError(f"{where} must be a number, not wire type {wire_type}")
    return value


def _bytes(where: str, wire_type: int, value: Value) -> memoryview:
    if wire_type != BYTES or not isinstance(value, memoryview):
        raise ProtobufError(f"{where} must have a length, not wire type {wire_type}")
    return value


def _text(where: str, wire_type: int, value: Value) -> str:
    try:
        return str(_bytes(where, wire_type, value), "utf-8")
    except UnicodeDecodeError as error:
        raise ProtobufError(f"{where} is not UTF-8: {error}") from error


def _json(where: str, raw: Object) -> Any:
    """The JSON that a field contains as bytes, such as fieldsV1."""
    try:
        return msgspec.json.decode(base64.b64decode(raw.get("raw", "")) or b"null")
    except msgspec.DecodeError as error:
        raise ProtobufError(f"{where} is not JSON: {error}") from error


def _time(where: str, time: Object, precision: str) -> str | None:
    """RFC 3339 in UTC, as Kubernetes writes it. Go's zero time has no seconds, and means "not set"."""
    seconds = time.get("seconds", 0)
    if not seconds:
        return None
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds, microseconds=time.get("nanos", 0) // 1000)
    except OverflowError as error:
        raise ProtobufError(f"{where}: {seconds} s is outside the years 1 to 9999") from error
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"
