import contextlib

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from headgate.simulator.server.vllm_grpc.descriptors import classes_of
from headgate.simulator.server.vllm_grpc.messages import SERVICE

VERSIONS = ["grpc.reflection.v1", "grpc.reflection.v1alpha"]


@contextlib.asynccontextmanager
async def asking(server, package="grpc.reflection.v1"):
    """Asks one question in a call, and gets its answer; a channel is there besides."""
    names = ["ServerReflectionRequest", "ServerReflectionResponse"]
    request, response = classes_of(package, names).values()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.client.base_url.port}") as channel:
        call = channel.stream_stream(
            f"/{package}.ServerReflection/ServerReflectionInfo",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )

        async def ask(*questions):
            asked = [request(host="h", **question) for question in questions]
            answers = [each async for each in call(iter(asked))]
            assert [each.original_request for each in answers] == asked
            return answers

        yield ask, channel


@pytest.mark.parametrize("package", VERSIONS)
async def test_services_are_listed(serve, package):
    """That of vLLM and reflection itself, whichever version asks."""
    async with serve(grpc=True) as server, asking(server, package) as (ask, _):
        (answer,) = await ask({"list_services": ""})
    names = [each.name for each in answer.list_services_response.service]
    assert names == [SERVICE, *(f"{each}.ServerReflection" for each in VERSIONS)]


async def test_a_call_can_be_made_from_what_is_described(serve):
    """By a client that knows nothing beforehand, in the service's own messages."""
    async with serve(grpc=True) as server, asking(server) as (ask, channel):
        (answer,) = await ask({"file_containing_symbol": SERVICE})
        (data,) = answer.file_descriptor_response.file_descriptor_proto
        file = descriptor_pb2.FileDescriptorProto.FromString(data)
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        methods = pool.FindServiceByName(SERVICE).methods_by_name
        method = methods["Generate"]
        request = message_factory.GetMessageClass(method.input_type)
        response = message_factory.GetMessageClass(method.output_type)
        generate = channel.unary_stream(
            f"/{SERVICE}/Generate",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        answers = [
            each async for each in generate(request(text="How deep?", sampling_params={"max_tokens": 2}))
        ]
    assert set(methods) == {"Generate", "Abort", "HealthCheck", "GetModelInfo", "GetServerInfo"}
    assert [each.name for each in file.service[0].method if each.server_streaming] == ["Generate"]
    assert answers[-1].complete.completion_tokens == 2


@pytest.mark.parametrize(
    "question",
    [
        {"file_by_filename": "vllm_engine.proto"},
        {"file_containing_symbol": "vllm.grpc.engine.GenerateRequest"},
        {"file_containing_symbol": "vllm.grpc.engine.VllmEngine.Abort"},
    ],
)
async def test_a_file_is_found_by_its_name_and_what_it_has(serve, question):
    """Messages and methods, too."""
    async with serve(grpc=True) as server, asking(server) as (ask, _):
        (answer,) = await ask(question)
    (data,) = answer.file_descriptor_response.file_descriptor_proto
    assert descriptor_pb2.FileDescriptorProto.FromString(data).package == "vllm.grpc.engine"


async def test_what_there_is_not_is_told_and_the_call_goes_on(serve):
    """By gRPC's codes: 5 is not found, 3 an invalid argument."""
    questions = [
        {"file_by_filename": "other.proto"},
        {"file_containing_symbol": "other.Service"},
        {"file_containing_extension": {"containing_type": SERVICE, "extension_number": 1}},
        {"all_extension_numbers_of_type": "other.Message"},
        {},
        {"all_extension_numbers_of_type": "vllm.grpc.engine.AbortRequest"},
    ]
    async with serve(grpc=True) as server, asking(server) as (ask, _):
        *errors, last = await ask(*questions)
    assert [each.error_response.error_code for each in errors] == [5, 5, 5, 5, 3]
    assert last.all_extension_numbers_response.base_type_name == "vllm.grpc.engine.AbortRequest"
