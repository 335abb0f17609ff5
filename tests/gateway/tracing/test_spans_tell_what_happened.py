"""The spans of a request: what it waited for, who was asked, and how that ended. No text of its prompt."""

import json

import pytest

from headgate.telemetry.tracing import CLIENT, INTERNAL, SERVER

EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 5},
}
SECRET = "the treasure is under the oak"


def chunk(text):
    data = f"data: {text}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


def stream(call, *, ends=True):
    call.write(EVENTS + chunk('{"choices":[{"text":"deep"}]}'))
    if ends:
        call.write(chunk(json.dumps({"choices": [], "usage": USAGE})) + chunk("[DONE]") + b"0\r\n\r\n")
    else:
        call.close()


def check_tree(trace):
    """Spans nest, their times are ordered, and their ids differ."""
    _, *others = trace.spans
    by_id = {span.span_id: span for span in trace.spans}
    assert len(by_id) == len(trace.spans)
    for span in trace.spans:
        assert span.start_ns <= span.end_ns
    for span in others:
        parent = by_id[span.parent_id]
        assert parent.start_ns <= span.start_ns
        assert span.end_ns <= parent.end_ns


async def test_a_stream_has_a_prefill_and_a_decode(start_traced, start_endpoint):
    """They meet at the first token; all tokens, and those from the cache, are told."""
    gateway, traces = await start_traced(await start_endpoint(behave=stream))
    await gateway.ask({"model": "m", "prompt": SECRET, "stream": True})
    check_tree(traces[0])
    spans = traces.spans()
    assert list(spans) == ["chat m", "pick", "attempt", "prefill", "decode"]
    root, attempt = spans["chat m"], spans["attempt"]
    assert [span.kind for span in spans.values()] == [SERVER, INTERNAL, CLIENT, INTERNAL, INTERNAL]
    assert spans["prefill"].end_ns == spans["decode"].start_ns
    assert spans["prefill"].parent_id == spans["decode"].parent_id == attempt.span_id
    told = root.attributes
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "vllm"
    assert told["gen_ai.request.stream"] is True
    assert told["gen_ai.usage.cache_read.input_tokens"] == 5
    assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (9, 4)
    assert told["gen_ai.response.time_to_first_chunk"] >= 0
    assert told["headgate.route"] == "default/route"
    assert told["headgate.endpoint"] == "default/pod-0"
    assert "error.type" not in told
    assert root.error is None
    assert SECRET not in repr(traces)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "chat m"),
        ("/v1/messages?beta=secret", "chat m"),
        ("/v1/completions", "text_completion m"),
        ("/v1/embeddings", "embeddings m"),
        ("/v1/rerank", "rerank m"),
    ],
)
async def test_requests_are_named_by_operation_and_model(start_traced, start_endpoint, path, name):
    """As the conventions want it. Queries are not told."""
    gateway, traces = await start_traced(await start_endpoint(b"{}"))
    await gateway.ask(path=path)
    (root, *_) = traces[0].spans
    assert root.name == name
    assert root.attributes["url.path"] == path.partition("?")[0]
    assert "secret" not in repr(traces)


async def test_models_that_nobody_serves_name_no_spans(start_traced, start_endpoint):
    """Clients would make up names; it is an attribute, cut to a length."""
    gateway, traces = await start_traced(await start_endpoint(b"{}"))
    response = await gateway.ask({"model": "x" * 999, "prompt": "hello"})
    assert response.status == 404
    (root,) = traces[0].spans
    assert root.name == "chat"
    assert len(root.attributes["gen_ai.request.model"]) == 256
    assert root.attributes["error.type"] == "model_not_found"
    assert root.error is None  # it is the client's


async def test_each_attempt_has_a_span(start_traced, start_endpoint):
    """With what happened; each endpoint is told of its own as the parent."""
    endpoints = [
        await start_endpoint(behave=lambda call: call.answer(b"no", "503 Busy")),
        await start_endpoint(b"{}"),
    ]
    gateway, traces = await start_traced(*endpoints)
    assert (await gateway.ask()).status == 200
    check_tree(traces[0])
    spans = traces.spans()
    assert list(spans) == ["chat m", "pick", "attempt", "pick 2", "attempt 2"]
    failed, well = spans["attempt"], spans["attempt 2"]
    assert (failed.error, failed.attributes["error.type"]) == ("status_503", "status_503")
    assert failed.attributes["server.port"] == endpoints[0].port
    assert well.error is None
    assert failed.end_ns <= well.start_ns
    parents = [endpoint.calls[0].header("traceparent").split("-")[2] for endpoint in endpoints]
    assert parents == [f"{span.span_id:016x}" for span in (failed, well)]
    assert spans["chat m"].attributes["headgate.request.attempts"] == 2


async def test_a_request_that_no_endpoint_served(start_traced, start_endpoint):
    """Its error is that of the request, and of its last attempt."""
    gateway, traces = await start_traced(await start_endpoint(behave=lambda call: call.close()))
    response = await gateway.ask()
    assert response.status == 502
    check_tree(traces[0])
    spans = traces.spans()
    root = spans["chat m"]
    assert root.attributes["error.type"] == "upstream_failed"
    assert "broke off before its response" in root.error
    assert spans["attempt"].error == "reset"


async def test_a_stream_that_is_cut_off(start_traced, start_endpoint):
    """It has a decode that failed, although its status was 200."""
    gateway, traces = await start_traced(await start_endpoint(behave=lambda call: stream(call, ends=False)))
    client = await gateway.connect()
    client.post({"model": "m", "prompt": "hello", "stream": True})
    assert b"upstream_lost" in await client.rest()
    check_tree(traces[0])
    spans = traces.spans()
    assert spans["chat m"].attributes["http.response.status_code"] == 200
    assert spans["chat m"].attributes["error.type"] == "upstream_lost"
    assert spans["chat m"].error
    assert spans["decode"].error == "upstream_lost"


async def test_a_client_that_leaves(start_traced, endpoint, eventually):
    """Is no error of the server."""
    gateway, traces = await start_traced(endpoint)
    client = await gateway.connect()
    client.post()
    await endpoint.call()
    client.close()
    await eventually(lambda: traces)
    check_tree(traces[0])
    root = traces.spans()["chat m"]
    assert root.attributes["http.response.status_code"] == 499
    assert root.attributes["error.type"] == "client_gone"
    assert root.error is None


async def test_time_in_the_queue(start_traced, endpoint, eventually):
    """It comes before the pick, and names the tenant."""
    settings = {
        "queue_detector": "concurrency-detector",
        "queue_max_in_flight": 1,
        "queue_fairness_ids_from": "anyone",
    }
    gateway, traces = await start_traced(endpoint, settings=settings)
    first, second = await gateway.connect(), await gateway.connect()
    first.post()
    call = await endpoint.call()
    second.post(x_headgate_fairness_id="team-a")
    (queue,) = gateway.shell.queues.all()
    await eventually(lambda: queue.held)
    call.answer(b"{}")
    await first.response()
    (await endpoint.call()).answer(b"{}")
    await second.response()
    await eventually(lambda: len(traces) == 2)
    check_tree(traces[1])
    spans = traces.spans(1)
    assert list(spans) == ["chat m", "queue", "pick", "attempt"]
    assert spans["queue"].attributes["headgate.tenant"] == "team-a"
    assert spans["chat m"].attributes["headgate.tenant"] == "team-a"
    assert spans["queue"].end_ns <= spans["pick"].start_ns
