"""W3C trace context in and out: who decides whether a request is sampled, and what endpoints are told."""

import re

import pytest

TRACE = "0af7651916cd43dd8448eb211c80319c"
SAMPLED, UNSAMPLED = (f"00-{TRACE}-b7ad6b7169203331-{flags}" for flags in ("01", "00"))
TRUSTED = {"clients_trusted_networks": ("127.0.0.1",)}


@pytest.mark.parametrize("settings", [TRUSTED, {"tracing_sampled_from": "anyone"}])
async def test_a_believed_client_decides(start_traced, start_endpoint, settings):
    """Whatever the ratio."""
    endpoint = await start_endpoint(b"{}")
    gateway, traces = await start_traced(endpoint, settings=settings, ratio=0.0)
    await gateway.ask(traceparent=SAMPLED, tracestate="vendor=1")
    await gateway.ask(traceparent=UNSAMPLED, tracestate="vendor=1")
    (trace,) = traces
    root, _, attempt = trace.spans
    assert trace.trace_id == TRACE
    assert trace.state == "vendor=1"
    assert root.parent_id == 0xB7AD6B7169203331
    told, untouched = endpoint.calls
    assert told.header("traceparent") == f"00-{TRACE}-{attempt.span_id:016x}-01"
    assert told.header("tracestate") == "vendor=1"
    assert [name for name, _ in told.headers].count("traceparent") == 1
    assert untouched.header("traceparent") == UNSAMPLED


async def test_strangers_do_not_decide(start_traced, start_endpoint):
    """Their traces go on, and the ratio decides by their id; the endpoint is told so."""
    endpoint = await start_endpoint(b"{}")
    gateway, traces = await start_traced(endpoint, ratio=0.0)
    await gateway.ask(traceparent=SAMPLED)
    assert not traces
    assert re.fullmatch(f"00-{TRACE}-[0-9a-f]{{16}}-00", endpoint.calls[0].header("traceparent"))
    gateway, traces = await start_traced(endpoint, ratio=1.0)
    await gateway.ask(traceparent=UNSAMPLED)
    assert traces[0].trace_id == TRACE
    assert endpoint.calls[1].header("traceparent").endswith("-01")


async def test_nobody_decides(start_traced, start_endpoint):
    """Not even a trusted client, where that is set."""
    settings = TRUSTED | {"tracing_sampled_from": "nobody"}
    gateway, traces = await start_traced(await start_endpoint(b"{}"), settings=settings, ratio=0.0)
    await gateway.ask(traceparent=SAMPLED)
    assert not traces


@pytest.mark.parametrize("parent", [None, "00-nonsense", "00-" + "0" * 32 + "-b7ad6b7169203331-01"])
async def test_requests_without_a_valid_parent_begin_a_trace(start_traced, start_endpoint, parent):
    """An invalid header goes, and with it the state that belonged to it. Endpoints of requests that are not
    sampled are told so, as they would begin traces of their own."""
    given = {"traceparent": parent, "tracestate": "vendor=1"} if parent else {}
    for ratio, flags in ((1.0, "01"), (0.0, "00")):
        endpoint = await start_endpoint(b"{}")
        gateway, traces = await start_traced(endpoint, ratio=ratio)
        await gateway.ask(**given)
        (call,) = endpoint.calls
        found = re.fullmatch(f"00-([0-9a-f]{{32}})-[0-9a-f]{{16}}-{flags}", call.header("traceparent"))
        assert found
        assert call.header("tracestate") is None
        assert [trace.trace_id for trace in traces] == [found[1]] * (flags == "01")


async def test_a_share_of_requests_is_sampled(start_traced, start_endpoint):
    """About the ratio."""
    gateway, traces = await start_traced(await start_endpoint(b"{}"), ratio=0.3)
    client = await gateway.connect()
    for _ in range(200):
        client.post()
        await client.response()
    assert 40 <= len(traces) <= 80


async def test_a_ratio_changes_while_serving(start_traced, start_endpoint):
    """With the next request."""
    gateway, traces = await start_traced(await start_endpoint(b"{}"), ratio=0.0)
    await gateway.ask()
    settings = gateway.shell.settings.replace(tracing_sample_ratio=1.0)
    gateway.recorder.tracer.change(settings.tracing)
    await gateway.ask()
    assert len(traces) == 1
