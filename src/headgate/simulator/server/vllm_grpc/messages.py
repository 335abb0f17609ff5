"""The messages of vLLM's `vllm_engine.proto`, as far as the simulated engine reads and writes them.

What a client sends besides is passed over, as protobuf does.
"""

from typing import Any

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

PACKAGE = "vllm.grpc.engine"
SERVICE = f"{PACKAGE}.VllmEngine"

_MESSAGES = {
    "SamplingParams": (
        "optional uint32 max_tokens 8",
        "uint32 min_tokens 9",
        "repeated string stop 10",
        "bool ignore_eos 14",
        "uint32 n 15",
        "optional int32 seed 24",
    ),
    "TokenizedInput": ("string original_text 1", "repeated uint32 input_ids 2"),
    "GenerateRequest": (
        "string request_id 1",
        "oneof.input TokenizedInput tokenized 2",
        "oneof.input string text 3",
        "SamplingParams sampling_params 4",
        "bool stream 5",
    ),
    "GenerateStreamChunk": (
        "repeated uint32 token_ids 1",
        "uint32 prompt_tokens 2",
        "uint32 completion_tokens 3",
        "uint32 cached_tokens 4",
    ),
    "GenerateComplete": (
        "repeated uint32 output_ids 1",
        "string finish_reason 2",
        "uint32 prompt_tokens 3",
        "uint32 completion_tokens 4",
        "uint32 cached_tokens 5",
    ),
    "GenerateResponse": (
        "string request_id 1",
        "oneof.response GenerateStreamChunk chunk 2",
        "oneof.response GenerateComplete complete 3",
    ),
    "AbortRequest": ("repeated string request_ids 1",),
    "AbortResponse": (),
    "HealthCheckRequest": (),
    "HealthCheckResponse": ("bool healthy 1", "string message 2"),
    "GetModelInfoRequest": (),
    "GetModelInfoResponse": (
        "string model_path 1",
        "bool is_generation 2",
        "uint32 max_context_length 3",
        "uint32 vocab_size 4",
        "bool supports_vision 5",
    ),
    "GetServerInfoRequest": (),
    "GetServerInfoResponse": (
        "uint32 active_requests 1",
        "bool is_paused 2",
        "double last_receive_timestamp 3",
        "double uptime_seconds 4",
        "string server_type 5",
    ),
}
"""For each message its fields: how often (once, if nothing is said), type, name, number."""

_Field = descriptor_pb2.FieldDescriptorProto


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="vllm_engine.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields:
            _add_field(message, text)
    return file


def _add_field(message: Any, text: str) -> None:
    *how_often, kind, name, number = text.split()
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if kind in _MESSAGES:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
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


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in _MESSAGES
    }


CLASSES = _classes()
"""The message classes by name."""
