"""Spans of requests reach a collector by OTLP over HTTP, from a process of their own."""

import json

ANSWER = json.dumps({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}).encode()


async def test_one_request_is_one_trace(
    start_exporting, start_endpoint, collector, attributes_of, eventually
):
    """Its spans name the model, the tokens and the endpoint; the engine is told its parent."""
    endpoint = await start_endpoint(ANSWER)
    gateway, _ = await start_exporting(endpoint)
    assert (await gateway.ask()).status == 200
    await eventually(lambda: len(collector.spans) == 3)
    root, pick, attempt = collector.spans
    assert [span.name for span in collector.spans] == ["chat m", "pick", "attempt"]
    assert len({span.trace_id for span in collector.spans}) == 1
    assert not root.parent_span_id
    assert pick.parent_span_id == attempt.parent_span_id == root.span_id
    told = attributes_of(root)
    assert told["gen_ai.request.model"] == "m"
    assert told["gen_ai.usage.input_tokens"] == 7
    assert told["gen_ai.usage.output_tokens"] == 3
    assert told["http.response.status_code"] == 200
    assert attributes_of(attempt)["server.port"] == endpoint.port
    parent = endpoint.calls[0].header("traceparent").split("-")
    assert parent == ["00", root.trace_id.hex(), attempt.span_id.hex(), "01"]
    # Of one batch, or of two if the first was sent as the spans came in.
    assert {resource["service.name"] for resource in collector.resources} == {"headgate-gateway"}
    assert root.trace_id.hex() in gateway.log_lines()[0]
