"""Calls of vLLM's gRPC service through a real Envoy: a grpcio client, and grpcio servers (B38, B41)."""

import asyncio
import contextlib

import envoy_process
import grpc
import pytest
from picker_world import OBJECTIVES, pod, pool
from smg_grpc_proto.generated import vllm_engine_pb2 as engine

ENVOY = envoy_process.find()
pytestmark = pytest.mark.skipif(ENVOY is None, reason="there is no Envoy: run tools/fetch_envoy.sh")
GENERATE = "/vllm.grpc.engine.VllmEngine/Generate"
EMBED = "/vllm.grpc.engine.VllmEngine/Embed"
PRIORITY_4 = (("x-llm-d-inference-objective", "inference-objective-with-priority-4"),)
NONSENSE = b"\xff\xff\xff no message"
TYPE = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


class Servicer(grpc.GenericRpcHandler):
    """Generates as many tokens as are asked for, each in a message; a prompt of one token is refused, and one
    of two tokens gets what is no message."""

    def __init__(self, name):
        self.name, self.requests = name, []

    def service(self, details):
        if details.method == GENERATE:
            return grpc.unary_stream_rpc_method_handler(self.generate)
        if details.method == EMBED:
            return grpc.unary_unary_rpc_method_handler(self.embed)
        return None

    async def embed(self, data, context):
        request = engine.EmbedRequest.FromString(data)
        self.requests.append(request)
        prompt = len(request.tokenized.input_ids)
        return engine.EmbedResponse(embedding=[0.5] * 8, prompt_tokens=prompt).SerializeToString()

    async def generate(self, data, context):
        request = engine.GenerateRequest.FromString(data)
        self.requests.append(request)
        prompt = len(request.tokenized.input_ids)
        if prompt == 1:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many requests")
        if prompt == 2:
            yield NONSENSE
            return
        for number in range(request.sampling_params.max_tokens):
            chunk = engine.GenerateStreamChunk(token_ids=[number], prompt_tokens=prompt)
            yield engine.GenerateResponse(chunk=chunk).SerializeToString()
        complete = engine.GenerateComplete(
            prompt_tokens=prompt, completion_tokens=request.sampling_params.max_tokens
        )
        yield engine.GenerateResponse(complete=complete).SerializeToString()
        context.set_trailing_metadata((("served-by", self.name),))


@pytest.fixture
async def rig(picker, tmp_path, unused_tcp_port_factory):
    """A picker, two servers, and a channel to Envoy."""
    async with contextlib.AsyncExitStack() as stack:
        servicers, pods = [], []
        for number in (1, 2):
            server = grpc.aio.server()
            servicer = Servicer(f"pod-{number}")
            server.add_generic_rpc_handlers((servicer,))
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            stack.push_async_callback(server.stop, None)
            servicers.append(servicer)
            pods.append(pod(number, **{"headgate.dev/address": f"127.0.0.1:{port}"}))
        world = (await picker()).apply(pool(), *OBJECTIVES, *pods)
        cluster = envoy_process.original_destination()
        http2 = {"@type": TYPE, "explicit_http_config": {"http2_protocol_options": {}}}
        cluster["typed_extension_protocol_options"] = {TYPE.rpartition("/")[2]: http2}
        port = unused_tcp_port_factory()
        config = envoy_process.configuration(port, world.port, cluster)
        await stack.enter_async_context(envoy_process.running(ENVOY, tmp_path, config))
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
        yield world, servicers, channel.unary_stream(GENERATE), channel.unary_unary(EMBED)


def request(tokens, most=3):
    found = engine.GenerateRequest(request_id="1", stream=True)
    found.tokenized.input_ids.extend(range(tokens))
    found.sampling_params.max_tokens = most
    return found


async def test_b38_streams_of_messages_and_trailers(rig):
    """B38: the client has every message and the trailers; the picker has the counts, and nothing is left."""
    world, servicers, generate, _ = rig
    world.see((3, 0.2), (0, 0.1))
    sent = request(3000, most=50)
    call = generate(sent.SerializeToString(), metadata=PRIORITY_4)
    found = [engine.GenerateResponse.FromString(data) async for data in call]
    assert [each.chunk.token_ids[0] for each in found[:-1]] == list(range(50))
    assert found[-1].complete.completion_tokens == 50
    assert await call.code() == grpc.StatusCode.OK
    (served_by,) = [value for key, value in await call.trailing_metadata() if key == "served-by"]
    (servicer,) = [each for each in servicers if each.requests]
    assert (servicer.name, servicer.requests) == (served_by, [sent])
    assert served_by == "pod-2"
    async with asyncio.timeout(10):
        while world.shell.streams:
            await asyncio.sleep(0.01)
    assert sum(load.requests for load in world.loads) == 0
    assert world.sample("headgate_gateway_tokens_total", direction="input") == 3000
    assert world.sample("headgate_gateway_tokens_total", direction="output") == 50
    named = {"model_name": "", "target_model_name": "", "priority": "4"}
    assert world.sample("llm_d_epp_request_total", **named) == 1


async def test_b38_calls_to_embed(rig):
    """B38: to the endpoint with the least load."""
    world, servicers, _, embed = rig
    world.see((3, 0.2), (0, 0.1))
    sent = engine.EmbedRequest(request_id="1")
    sent.tokenized.input_ids.extend(range(300))
    found = engine.EmbedResponse.FromString(await embed(sent.SerializeToString(), metadata=PRIORITY_4))
    assert found.prompt_tokens == 300
    assert [each.requests for each in servicers] == [[], [sent]]
    named = {"model_name": "", "target_model_name": "", "priority": "4"}
    assert world.sample("llm_d_epp_request_total", **named) == 1


async def test_b41_responses_that_are_no_messages_pass(rig):
    """B41: as they are."""
    world, _, generate, _ = rig
    assert [data async for data in generate(request(2).SerializeToString())] == [NONSENSE]
    async with asyncio.timeout(10):
        while world.shell.streams:
            await asyncio.sleep(0.01)
    assert sum(load.requests for load in world.loads) == 0


async def test_prompts_with_the_same_beginning_share_an_endpoint(rig):
    """By the ids of their tokens."""
    _, servicers, generate, _ = rig
    for _ in range(6):
        async for _ in generate(request(20_000, most=1).SerializeToString()):
            pass
    assert sorted(len(each.requests) for each in servicers) == [0, 6]


async def test_calls_that_fail_and_calls_that_are_cancelled(rig):
    """The status reaches the client; a client that leaves takes its request along."""
    world, _, generate, _ = rig
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        async for _ in generate(request(1).SerializeToString()):
            pass
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    call = generate(request(100, most=1_000_000).SerializeToString())
    await call.read()
    call.cancel()
    async with asyncio.timeout(10):
        while world.shell.streams:
            await asyncio.sleep(0.01)
    assert sum(load.requests for load in world.loads) == 0
