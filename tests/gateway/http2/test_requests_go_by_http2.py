"""Endpoints of an HTTP/2 pool get requests over HTTP/2; clients see no difference."""

import gzip
import json

import pytest

pytestmark = pytest.mark.every_loop


@pytest.fixture
async def serving(start_gateway, start_http2_endpoint):
    """A gateway before one endpoint that speaks HTTP/2."""

    async def start(behave=None, settings=None, window=None, **pool):
        endpoint = await start_http2_endpoint(behave, window=window)
        gateway = await start_gateway(settings=settings)
        gateway.serve([endpoint], http2=True, **pool)
        return gateway, endpoint

    return start


async def test_a_request_arrives_with_its_head_and_body(serving):
    """Its line becomes pseudo-headers; of the others, those of one connection stay behind."""
    gateway, endpoint = await serving(lambda call: call.answer(b"served", content_type="text/plain"))
    response = await gateway.ask(None, "/v1/completions?x=1", x_request_id="r-1", accept="*/*", TE="trailers")
    assert (response.status, response.body) == (200, b"served")
    assert (response.header("content-type"), response.header("content-length")) == ("text/plain", "6")
    (call,) = endpoint.calls
    headers = call.headers
    assert (headers[":method"], headers[":scheme"]) == ("POST", "http")
    assert (headers[":path"], headers[":authority"]) == ("/v1/completions?x=1", "gateway")
    assert (headers["x-request-id"], headers["accept"]) == ("r-1", "*/*")
    assert call.json == {"model": "m", "prompt": "hello"}
    assert headers["content-length"] == str(len(call.body))
    assert not {"connection", "te", "host", "transfer-encoding"} & headers.keys()


async def test_a_request_that_names_no_host_is_for_the_endpoints_address(serving):
    """HTTP/1.0 needs no host, and HTTP/2 has no empty one: servers end such streams as malformed."""
    gateway, endpoint = await serving(lambda call: call.answer(b"served"))
    client = await gateway.connect()
    client.send(b'POST /v1/completions HTTP/1.0\r\ncontent-length: 13\r\n\r\n{"model":"m"}')
    assert (await client.response()).body == b"served"
    (call,) = endpoint.calls
    assert call.headers[":authority"] == f"127.0.0.1:{endpoint.port}"


async def test_one_connection_serves_one_request_after_the_other(serving):
    """On streams of their own, whether or not the answers before had a length."""
    gateway, endpoint = await serving()
    client = await gateway.connect()
    for place in range(4):
        client.post({"model": "m", "prompt": "x" * 50_000})
        call = await endpoint.call()
        if place % 2:
            call.answer(b"%d" % place)
        else:
            call.head()
            call.write(b"%d" % place)
            call.end()
        response = await client.response()
        assert (response.status, response.body) == (200, b"%d" % place)
    assert [call.id for call in endpoint.calls] == [1, 3, 5, 7]
    assert len(endpoint.connections) == 1


@pytest.mark.parametrize("has_length", [False, True])
async def test_counts_of_a_compressed_response_are_read(serving, has_length):
    """In a copy, whether frames become chunks or have a length; the client gets the bytes as they came."""
    gateway, endpoint = await serving()
    client = await gateway.connect()
    client.post({"model": "m", "prompt": "x"})
    call = await endpoint.call()
    packed = gzip.compress(b'{"usage":{"prompt_tokens":3,"completion_tokens":77}}')
    call.head(content_encoding="gzip", **({"content_length": str(len(packed))} if has_length else {}))
    call.write(packed[:20])
    call.write(packed[20:])
    call.end()
    assert (await client.response()).body == packed
    await gateway.idle()
    assert gateway.shell.plane.sizes.answers.statistics() == {"m": 77}


async def test_a_stream_of_events_passes_as_it_comes(serving):
    """Each frame is passed on before the next is there; usage that nobody asked for is taken out."""
    gateway, endpoint = await serving()
    client = await gateway.connect()
    client.post({"model": "m", "prompt": "hello", "stream": True})
    call = await endpoint.call()
    assert call.json["stream_options"] == {"include_usage": True}
    call.head(content_type="text/event-stream")
    call.write(b'data: {"choices":[{"text":"a"}]}\n\n')
    response = await client.head()
    assert response.header("transfer-encoding") == "chunked"
    assert await client.reader.readuntil(b'"a"}]}\n\n\r\n')
    call.write(b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n')
    call.write(b"data: [DONE]\n\n")
    call.end()
    rest = await client.read_body(response)
    assert rest.body == b"data: [DONE]\n\n"
    await gateway.idle()
    assert gateway.metric("headgate_gateway_tokens_total", direction="output") == 3


async def test_the_clients_name_of_the_model_is_put_back(serving):
    """In answers whose length changes by that, too."""
    answered = json.dumps({"model": "the-engines-own", "choices": []}).encode()
    gateway, endpoint = await serving(
        lambda call: call.answer(answered, content_type="application/json"), model="the-engines-own"
    )
    response = await gateway.ask()
    assert endpoint.calls[0].json["model"] == "the-engines-own"
    assert response.json == {"model": "m", "choices": []}


@pytest.mark.parametrize("status", [204, 304, 404])
async def test_any_status_passes(serving, status):
    """Those that have no body get none."""

    def behave(call):
        call.head(status, end=True)

    gateway, _ = await serving(behave)
    response = await gateway.ask()
    assert (response.status, response.body) == (status, b"")


async def test_what_no_client_asked_for_is_left_out(serving):
    """Interim answers, frames without bytes, trailers."""

    def behave(call):
        call.head(103, link="</x>; rel=preload")
        call.head(200)
        call.write(b"")
        call.write(b"body")
        call.end(grpc_status="0")

    gateway, _ = await serving(behave)
    client = await gateway.connect()
    client.post()
    response = await client.response()
    assert (response.status, response.body) == (200, b"body")
    assert response.header("grpc-status") is None
    client.post()
    assert (await client.response()).body == b"body"


async def test_engines_are_looked_at_by_http2(serving, eventually):
    """Their metrics page is on the port that serves."""

    def behave(call):
        is_page = call.headers[":path"] == "/metrics"
        call.answer(b"vllm:num_requests_waiting 4\n" if is_page else b'{"data": []}')

    gateway, endpoint = await serving(behave, settings={"engine_metrics_interval_s": 0.05})
    gateway.shell.scraper.start()
    (load,) = gateway.shell.plane.ledger.loads()
    await eventually(lambda: load.reading is not None and load.reading.waiting == 4)
    await eventually(lambda: [call.headers[":path"] for call in endpoint.calls].count("/metrics") >= 2)
    assert len(endpoint.connections) == 1
