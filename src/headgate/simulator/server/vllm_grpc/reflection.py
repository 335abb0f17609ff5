"""gRPC's server reflection: what services there are, and the files of protobuf that describe them.

Both versions of the service have the same messages. Each call is a stream of questions, and each question has
one answer; what there is not is an answer, too, and does not end the call.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any

import grpc  # type: ignore[import-untyped]

from headgate.simulator.server.vllm_grpc.descriptors import POOL, Method, add_file, classes_of
from headgate.simulator.server.vllm_grpc.messages import SERVICE

_PACKAGES = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
_MESSAGES = {
    "ServerReflectionRequest": (
        "string host 1",
        "oneof.message_request string file_by_filename 3",
        "oneof.message_request string file_containing_symbol 4",
        "oneof.message_request ExtensionRequest file_containing_extension 5",
        "oneof.message_request string all_extension_numbers_of_type 6",
        "oneof.message_request string list_services 7",
    ),
    "ExtensionRequest": ("string containing_type 1", "int32 extension_number 2"),
    "ServerReflectionResponse": (
        "string valid_host 1",
        "ServerReflectionRequest original_request 2",
        "oneof.message_response FileDescriptorResponse file_descriptor_response 4",
        "oneof.message_response ExtensionNumberResponse all_extension_numbers_response 5",
        "oneof.message_response ListServiceResponse list_services_response 6",
        "oneof.message_response ErrorResponse error_response 7",
    ),
    "FileDescriptorResponse": ("repeated bytes file_descriptor_proto 1",),
    "ExtensionNumberResponse": ("string base_type_name 1", "repeated int32 extension_number 2"),
    "ListServiceResponse": ("repeated ServiceResponse service 1",),
    "ServiceResponse": ("string name 1",),
    "ErrorResponse": ("int32 error_code 1", "string error_message 2"),
}
_METHOD = Method("ServerReflectionInfo", "ServerReflectionRequest", "ServerReflectionResponse", "both")
SERVICES = (SERVICE, *(f"{package}.ServerReflection" for package in _PACKAGES))
for _package in _PACKAGES:
    add_file(
        f"{_package.replace('.', '/')}/reflection.proto", _package, _MESSAGES, {"ServerReflection": [_METHOD]}
    )


def handlers() -> tuple[Any, ...]:
    """For `grpc.aio.Server.add_generic_rpc_handlers`."""
    return tuple(map(_handler, _PACKAGES))


def _handler(package: str) -> Any:
    classes = classes_of(package, _MESSAGES)
    response = classes["ServerReflectionResponse"]

    async def answer(questions: AsyncIterable[Any], context: Any) -> AsyncIterator[Any]:
        async for question in questions:
            yield response(valid_host=question.host, original_request=question, **_answer(question))

    method = grpc.stream_stream_rpc_method_handler(
        answer, classes["ServerReflectionRequest"].FromString, lambda message: message.SerializeToString()
    )
    return grpc.method_handlers_generic_handler(f"{package}.ServerReflection", {_METHOD.name: method})


def _answer(question: Any) -> dict[str, Any]:
    """One field of the response, by its name."""
    match question.WhichOneof("message_request"):
        case "list_services":
            return {"list_services_response": {"service": [{"name": name} for name in SERVICES]}}
        case "file_by_filename":
            return _file(POOL.FindFileByName, question.file_by_filename)
        case "file_containing_symbol":
            return _file(_file_of, question.file_containing_symbol)
        case "all_extension_numbers_of_type":
            return _no_extensions(question.all_extension_numbers_of_type)
        case "file_containing_extension":
            return _error(grpc.StatusCode.NOT_FOUND, "no message here has extensions")
        case _:
            return _error(grpc.StatusCode.INVALID_ARGUMENT, "message_request: must be set")


def _file(find: Callable[[str], Any], name: str) -> dict[str, Any]:
    """No file imports another, so one is enough."""
    try:
        return {"file_descriptor_response": {"file_descriptor_proto": [find(name).serialized_pb]}}
    except KeyError:
        return _error(grpc.StatusCode.NOT_FOUND, f"there is no {name!r}; ask with list_services")


def _file_of(symbol: str) -> Any:
    """The file that declares it; the pool's own search knows no methods."""
    try:
        return POOL.FindFileContainingSymbol(symbol)
    except KeyError:
        return POOL.FindMethodByName(symbol).containing_service.file


def _no_extensions(name: str) -> dict[str, Any]:
    try:
        POOL.FindMessageTypeByName(name)
    except KeyError:
        return _error(grpc.StatusCode.NOT_FOUND, f"there is no message {name!r}")
    return {"all_extension_numbers_response": {"base_type_name": name}}


def _error(code: grpc.StatusCode, message: str) -> dict[str, Any]:
    return {"error_response": {"error_code": code.value[0], "error_message": message}}
