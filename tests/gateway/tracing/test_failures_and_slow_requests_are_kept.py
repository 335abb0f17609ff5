"""Requests that were not sampled are traced nevertheless if they failed or were slow, within a limit."""

import json
import time

import pytest

from headgate.telemetry.metrics import Registry


def metric(tracer, reason):
    return tracer.counts[reason]


async def test_errors_are_kept(start_traced, start_endpoint):
    """With their whole story; the client learns the trace, and so does the log."""
    gateway, traces = await start_traced(
        await start_endpoint(behave=lambda call: call.close()),
        settings={"logging_access_log": "json"},
        ratio=0.0,
    )
    response = await gateway.ask()
    (trace,) = traces
    assert response.status == 502
    assert response.header("x-headgate-trace-id") == trace.trace_id
    assert trace.spans[0].attributes["headgate.trace.kept"] == "error"
    assert not trace.is_sampled
    assert json.loads(gateway.log_lines()[0])["trace_id"] == trace.trace_id


async def test_an_error_of_the_endpoint_is_kept(start_traced, start_endpoint):
    """One that passed through."""
    behave = lambda call: call.answer(b"{}", "500 Broken")  # noqa: E731
    gateway, traces = await start_traced(await start_endpoint(behave=behave), ratio=0.0)
    assert (await gateway.ask()).status == 500
    assert traces[0].spans[0].error == "the endpoint responded with status 500"
    gateway, traces = await start_traced(await start_endpoint(behave=behave), ratio=1.0)
    response = await gateway.ask()  # it is known before
    assert response.header("x-headgate-trace-id") == traces[0].trace_id


@pytest.mark.parametrize("body", [{"model": "unknown", "prompt": "hello"}, b"{"])
async def test_errors_of_clients_are_not(start_traced, start_endpoint, body):
    """They could make any number of them."""
    gateway, traces = await start_traced(await start_endpoint(b"{}"), ratio=0.0)
    response = await gateway.ask(body)
    assert response.status in (400, 404)
    assert not traces
    assert response.header("x-headgate-trace-id") is None
    assert "trace=" not in gateway.log_lines()[0]


async def test_errors_are_not_kept_where_that_is_off(start_traced, start_endpoint):
    """Nor is anything told of a trace."""
    gateway, traces = await start_traced(
        await start_endpoint(behave=lambda call: call.close()), settings={"tracing_errors": False}, ratio=0.0
    )
    assert (await gateway.ask()).header("x-headgate-trace-id") is None
    assert not traces


@pytest.mark.parametrize(
    ("settings", "is_kept"),
    [
        ({"tracing_slow_s": 5.0}, True),
        ({"tracing_slow_s": 7.0}, False),
        ({"tracing_slow_s": 0.0, "tracing_slow_first_token_s": 1.0}, False),
    ],
)
async def test_slow_requests_are_kept(start_traced, endpoint, settings, is_kept):
    """By their total time; that of a first token is known of streams only."""
    gateway, traces = await start_traced(endpoint, settings=settings, ratio=0.0)
    gateway.move(0.0)
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    gateway.move(6.0)
    call.answer(b"{}")
    await client.response()
    assert [trace.spans[0].attributes["headgate.trace.kept"] for trace in traces] == ["slow"] * is_kept
    if is_kept:
        assert traces[0].spans[0].end_ns - traces[0].spans[0].start_ns >= 6e9
        assert abs(traces[0].spans[0].end_ns / 1e9 - time.time()) < 60


async def test_streams_with_a_slow_first_token_are_kept(start_traced, endpoint):
    """However fast the rest is."""
    gateway, traces = await start_traced(endpoint, settings={"tracing_slow_first_token_s": 2.0}, ratio=0.0)
    for seconds in (1.0, 3.0):
        client = await gateway.connect()
        client.post({"model": "m", "prompt": "hello", "stream": True})
        call = await endpoint.call()
        gateway.move(seconds)
        call.answer(b"data: [DONE]\n\n", **{"content-type": "text/event-stream"})
        await client.response()
    assert len(traces) == 1


async def test_a_flood_of_errors_is_no_flood_of_traces(start_traced, start_endpoint):
    """Those beyond the limit are counted."""
    gateway, traces = await start_traced(
        await start_endpoint(behave=lambda call: call.answer(b"{}", "500 Broken")),
        settings={"tracing_max_kept_per_s": 3.0},
        ratio=0.0,
    )
    now = gateway.shell.now() + 1000.0
    gateway.shell.services.now = lambda: now
    for _ in range(8):
        await gateway.ask()
    assert len(traces) == 3
    tracer = gateway.recorder.tracer
    assert (tracer.counts["error"], tracer.counts["over_limit"]) == (len(traces), 8 - len(traces))


def exemplars(text):
    return [line for line in text.splitlines() if "# {" in line]


async def test_histograms_have_exemplars(start_traced, start_endpoint):
    """In the format that has them, for those who ask for it."""
    gateway, traces = await start_traced(await start_endpoint(b"{}"))
    await gateway.ask()
    page, kind = gateway.registry.page("application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    found = exemplars(page.decode())
    names = {line.partition("{")[0] for line in found}
    assert names == {
        "headgate_gateway_request_duration_seconds_bucket",
        "headgate_gateway_queue_seconds_bucket",
    }
    root = traces[0].spans[0]
    assert all(f'span_id="{root.span_id:016x}",trace_id="{traces[0].trace_id}"' in line for line in found)
    plain, _ = gateway.registry.page("text/plain")
    assert not exemplars(plain.decode())
    assert isinstance(gateway.registry, Registry)
