import asyncio
import contextlib

import grpc
import pytest

from headgate.simulator.server.vllm_grpc.messages import CLASSES, SERVICE

PROMPT = list(range(40))


@contextlib.asynccontextmanager
async def calling(server, credentials=None):
    """Makes calls by name: their messages."""
    address = f"127.0.0.1:{server.client.base_url.port}"
    options = [("grpc.ssl_target_name_override", "localhost")]
    made = (
        grpc.aio.insecure_channel(address)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials, options)
    )
    async with made as channel:

        def call(name, request, kind="unary_unary", answer=None):
            method = getattr(channel, kind)(
                f"/{SERVICE}/{name}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=CLASSES[answer or f"{name}Response"].FromString,
            )
            return method(CLASSES[request[0]](**request[1]))

        yield call


def generate(call, **fields):
    params = fields.pop("params", {"max_tokens": 5})
    asked = {"request_id": "r-1", "sampling_params": params, **fields}
    if "text" not in fields:
        asked.setdefault("tokenized", {"input_ids": PROMPT})
    return call("Generate", ("GenerateRequest", asked), "unary_stream")


async def test_a_call_is_answered_with_token_ids(serve):
    """Those that /inference/v1/generate has for the same prompt; the second call finds its prompt cached."""
    async with serve(grpc=True) as server, calling(server) as call:
        body = {"token_ids": PROMPT, "sampling_params": {"max_tokens": 5}}
        http = (await server.client.post("/inference/v1/generate", json=body)).json()
        (answer,) = [each async for each in generate(call)]
    whole = answer.complete
    assert answer.request_id == "r-1"
    assert list(whole.output_ids) == http["choices"][0]["token_ids"]
    assert (whole.finish_reason, whole.prompt_tokens, whole.completion_tokens) == ("length", 40, 5)
    assert whole.cached_tokens == 32


async def test_a_stream_has_a_chunk_for_each_token_and_the_whole_at_the_end(serve):
    """From ids or from a text."""
    async with serve(grpc=True) as server, calling(server) as call:
        answers = [each async for each in generate(call, stream=True, text="How deep?")]
    *chunks, last = answers
    told = [token for each in chunks for token in each.chunk.token_ids]
    assert told == list(last.complete.output_ids)
    assert len(told) == 5
    assert [each.chunk.completion_tokens for each in chunks][-1] == 5
    assert {each.chunk.prompt_tokens for each in chunks} == {3}


async def test_an_answer_without_a_limit_ends_by_itself(serve):
    """With the token that ends a sequence."""
    async with serve(grpc=True, max_tokens_default=4) as server, calling(server) as call:
        (answer,) = [each async for each in generate(call, params={})]
    assert answer.complete.finish_reason == "stop"
    assert answer.complete.output_ids[-1] == 2**32 - 1


async def test_models_servers_and_their_health_are_told(serve):
    """In vLLM's fields."""
    async with serve(grpc=True, startup_s=0.0) as server, calling(server) as call:
        model = await call("GetModelInfo", ("GetModelInfoRequest", {}))
        info = await call("GetServerInfo", ("GetServerInfoRequest", {}))
        health = await call("HealthCheck", ("HealthCheckRequest", {}))
    assert (model.model_path, model.is_generation, model.max_context_length) == ("tiny", True, 131072)
    assert (info.server_type, info.active_requests, info.is_paused) == ("vllm-grpc", 0, False)
    assert health.healthy


@pytest.mark.parametrize(
    ("fields", "code", "told"),
    [
        ({"params": {"n": 2}}, grpc.StatusCode.INVALID_ARGUMENT, "sampling_params.n: must be 1, got 2"),
        ({"params": {"max_tokens": 0}}, grpc.StatusCode.INVALID_ARGUMENT, "sampling_params.max_tokens"),
        ({"tokenized": {}}, grpc.StatusCode.INVALID_ARGUMENT, "input: must not be empty"),
        ({"params": {"max_tokens": 10**6}}, grpc.StatusCode.INVALID_ARGUMENT, "maximum context length"),
    ],
)
async def test_refusals_have_the_codes_of_grpc(serve, fields, code, told):
    """And the words of HTTP's."""
    async with serve(grpc=True) as server, calling(server) as call:
        with pytest.raises(grpc.aio.AioRpcError, match=told.split(":")[0]) as refused:
            [each async for each in generate(call, **fields)]
    assert refused.value.code() == code


async def test_a_call_that_is_cancelled_frees_its_place(serve, slow_engine, eventually):
    """As a client of HTTP that leaves."""
    async with serve(grpc=True, engine=slow_engine) as server, calling(server) as call:
        asking = generate(call)
        waiting = asyncio.ensure_future(asking.read())
        await eventually(lambda: server.live.statistics().running == 1)
        asking.cancel()
        await eventually(lambda: server.live.statistics().running == 0)
        await asyncio.gather(waiting, return_exceptions=True)


async def test_calls_are_aborted_by_their_id(serve, slow_engine, eventually):
    """They end with the reason `abort`; others go on, and an id that is not here is no error."""
    async with serve(grpc=True, engine=slow_engine) as server, calling(server) as call:
        asking = {name: generate(call, request_id=name, stream=True) for name in ("a", "b")}
        reading = {name: asyncio.ensure_future(each.read()) for name, each in asking.items()}
        await eventually(lambda: server.live.statistics().running + server.live.statistics().waiting == 2)
        await call("Abort", ("AbortRequest", {"request_ids": ["b", "other"]}))
        last = await reading["b"]
        left = server.live.statistics()
        asking["a"].cancel()
        await asyncio.gather(*reading.values(), return_exceptions=True)
    assert (last.request_id, last.complete.finish_reason) == ("b", "abort")
    assert left.running + left.waiting == 1


async def test_failures_concern_calls_too(serve):
    """What is set by /admin/config, which is asked over the same port by HTTP/1.1."""
    async with serve(grpc=True) as server, calling(server) as call:
        changes = {"failure_injection_rate": 100, "failure_types": ["rate_limit"]}
        await server.client.post("/admin/config", json=changes)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            [each async for each in generate(call)]
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_grpc_goes_over_tls(serve, tmp_path):
    """Beside HTTP/1.1, for who asks for HTTP/2 alone."""
    from headgate.simulator.server import tls

    cert, key = tls.make("127.0.0.1")
    (tmp_path / "tls.crt").write_bytes(cert)
    (tmp_path / "tls.key").write_bytes(key)
    files = {"ssl_certfile": str(tmp_path / "tls.crt"), "ssl_keyfile": str(tmp_path / "tls.key")}
    credentials = grpc.ssl_channel_credentials(cert)
    async with serve(grpc=True, **files) as server, calling(server, credentials) as call:
        (answer,) = [each async for each in generate(call)]
        http = await server.client.get("/v1/models")
    assert answer.complete.completion_tokens == 5
    assert http.status_code == 200
