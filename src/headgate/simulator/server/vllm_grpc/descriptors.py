"""Services and messages without generated code: files of protobuf that are made from tables.

All of them are in one pool, by which reflection tells clients about them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

Messages = Mapping[str, Sequence[str]]
"""For each message its fields: how often (once, if nothing is said), type, name, number."""
POOL = descriptor_pool.DescriptorPool()
_Field = descriptor_pb2.FieldDescriptorProto


class Method(NamedTuple):
    """One method of a service, by the names of its messages."""

    name: str
    request: str
    answer: str
    streams: Literal["", "answers", "both"] = ""
    """Which side sends several messages."""


def add_file(file: str, package: str, messages: Messages, services: Mapping[str, Iterable[Method]]) -> None:
    """Put a file of that name into the pool. Its fields are of each other's types and of built-in ones."""
    made = descriptor_pb2.FileDescriptorProto(name=file, package=package, syntax="proto3")
    for name, fields in messages.items():
        message = made.message_type.add(name=name)
        for text in fields:
            _add_field(message, text, package, messages)
    for name, methods in services.items():
        service = made.service.add(name=name)
        for method in methods:
            service.method.add(
                name=method.name,
                input_type=f".{package}.{method.request}",
                output_type=f".{package}.{method.answer}",
                client_streaming=method.streams == "both",
                server_streaming=method.streams != "",
            )
    POOL.Add(made)


def classes_of(package: str, messages: Iterable[str]) -> dict[str, Any]:
    """The message classes of a file that was added, by name."""
    return {
        name: message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def _add_field(message: Any, text: str, package: str, messages: Messages) -> None:
    *how_often, kind, name, number = text.split()
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if kind in messages:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{package}.{kind}"
    else:
        field.type = getattr(_Field, f"TYPE_{kind.upper()}")
    match how_often:
        case ["repeated"]:
            field.label = _Field.LABEL_REPEATED
        case ["optional"]:
            field.proto3_optional = True
            field.oneof_index = _oneof(message, f"_{name}")
        case [group]:
            field.oneof_index = _oneof(message, group.removeprefix("oneof."))


def _oneof(message: Any, name: str) -> int:
    known = [each.name for each in message.oneof_decl]
    if name not in known:
        message.oneof_decl.add(name=name)
        known.append(name)
    return known.index(name)
