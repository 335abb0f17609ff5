"""A request that an HTTPRoute sends to a Service has spans, and its endpoint learns its place in them."""

import random
import time
from types import SimpleNamespace

import pytest

from headgate.dataplane.tracing import Tracer
from headgate.telemetry.tracing import CLIENT, SERVER, Export

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def traced():
    """The traces of a gateway from now on."""

    def trace(front, ratio=1.0, **settings):
        traces = []
        front.gateway.recorder.tracer = Tracer(
            front.gateway.shell.settings.replace(**settings).tracing,
            Export(endpoint="", shown="", ratio=ratio, follows_parents=True),
            random.Random(7),
            traces.append,
            time.time,
            kind=SERVER,
        )
        return traces

    return trace


async def test_a_request_and_its_attempt(front, start_endpoint, service, to, traced):
    """The endpoint's spans would be below that of its attempt."""
    endpoint = await start_endpoint(b"hello")
    await front.route({"backendRefs": [to("web")]}, objects_=[service("web", endpoint)])
    traces = traced(front)
    assert (await front.ask("/a?secret=b", "POST", b"body")).status == 200
    (trace,) = traces
    request, attempt = trace.spans
    assert (request.name, request.kind, request.parent_id) == ("POST Service/shop/web:80", SERVER, 0)
    assert (attempt.name, attempt.kind, attempt.parent_id) == ("attempt", CLIENT, request.span_id)
    assert request.start_ns <= attempt.start_ns <= attempt.end_ns <= request.end_ns
    told = request.attributes
    assert told["url.path"] == "/a", "the query may have secrets"
    assert (told["headgate.route"], told["headgate.service"]) == ("HTTPRoute/shop/r", "Service/shop/web:80")
    assert (told["http.request.body.size"], told["http.response.body.size"]) == (4, 5)
    assert (told["http.response.status_code"], told["headgate.trace.kept"]) == (200, "sampled")
    assert attempt.attributes["server.port"] == endpoint.port
    sent = endpoint.calls[0].header("traceparent")
    assert sent == f"00-{trace.trace_id}-{attempt.span_id:016x}-01"


async def test_the_trace_of_a_client_goes_on(start_front, start_endpoint, service, to, traced):
    """If it is trusted; its state goes along, and its other headers are as they were."""
    front = await start_front(clients_trusted_networks=("127.0.0.1/32",))
    endpoint = await start_endpoint(b"hello")
    await front.route({"backendRefs": [to("web")]}, objects_=[service("web", endpoint)])
    traces = traced(front, ratio=0.0)
    await front.ask(traceparent=PARENT, tracestate="a=b", x_other="1")
    (trace,) = traces
    assert (trace.trace_id, trace.state) == (PARENT.split("-")[1], "a=b")
    assert trace.spans[0].parent_id == int(PARENT.split("-")[2], 16)
    call = endpoint.calls[0]
    assert call.header("traceparent").split("-")[1] == trace.trace_id
    assert call.header("traceparent") != PARENT
    assert (call.header("tracestate"), call.header("x-other")) == ("a=b", "1")


async def test_others_are_told_not_to_record(front, start_endpoint, held_port, service, to, traced):
    """And kept if they fail, with what went wrong."""
    endpoint = await start_endpoint(b"hello")
    await front.route({"backendRefs": [to("web")]}, objects_=[service("web", endpoint)])
    traces = traced(front, ratio=0.0)
    assert (await front.ask(traceparent=PARENT)).status == 200
    assert endpoint.calls[0].header("traceparent").endswith("-00")
    assert not traces
    dead = SimpleNamespace(port=held_port())
    await front.route({"backendRefs": [to("web")]}, objects_=[service("web", dead)])
    refused = await front.ask()
    assert refused.status == 503
    (trace,) = traces
    assert trace.spans[0].error is not None
    assert trace.spans[0].attributes["error.type"] == "endpoint_unreachable"
    assert trace.spans[0].attributes["headgate.trace.kept"] == "error"
    assert not trace.is_sampled


async def test_the_number_of_kept_ones_is_bounded(front, service, to, traced):
    """A flood of errors is none of spans."""
    await front.route({"backendRefs": [to("web")]}, objects_=[service("web")])
    traces = traced(front, ratio=0.0, tracing_max_kept_per_s=2.0)
    for _ in range(5):
        assert (await front.ask()).status == 503
    assert len(traces) == 2
    assert front.gateway.recorder.tracer.counts["over_limit"] == 3
    assert len(traces[0].spans) == 1, "no endpoint got the request"


async def test_without_tracing_headers_pass_as_they_are(front, start_endpoint, service, to):
    """As any other."""
    endpoint = await start_endpoint(b"hello")
    await front.route({"backendRefs": [to("web")]}, objects_=[service("web", endpoint)])
    await front.ask(traceparent=PARENT)
    assert endpoint.calls[0].header("traceparent") == PARENT
