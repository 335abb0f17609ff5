"""The picker's spans are in the proxy's trace, and the endpoint is told of them."""

import random
import re
import time

import pytest
from picker_world import OBJECTIVES, completion, pool

from headgate.dataplane.settings import Tracing
from headgate.dataplane.tracing import Tracer
from headgate.telemetry.tracing import INTERNAL, Export

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331"
ANSWER = b'{"usage":{"prompt_tokens":7,"completion_tokens":3}}'


@pytest.fixture
async def traced(picker):
    """A picker with a pool, and its traces at this ratio."""

    async def start(ratio=0.0):
        world = (await picker()).apply(pool(), *OBJECTIVES)
        traces = []
        export = Export(endpoint="", shown="", ratio=ratio, follows_parents=True)
        settings = Tracing(sampled_from="anyone")
        world.shell.recorder.tracer = Tracer(
            settings, export, random.Random(1), traces.append, time.time, kind=INTERNAL
        )
        return world, traces

    return start


async def test_the_proxy_decides(traced):
    """Its span is the parent of the picker's, whose attempt is that of the engine's."""
    world, traces = await traced()
    proxy = await world.ask(traceparent=f"{PARENT}-01", tracestate="vendor=1")
    await proxy.serve(ANSWER)
    (trace,) = traces
    root, pick, attempt = trace.spans
    assert (trace.trace_id, trace.state) == (TRACE, "vendor=1")
    assert (root.name, root.parent_id) == ("text_completion", 0xB7AD6B7169203331)
    assert [span.name for span in (pick, attempt)] == ["pick", "attempt"]
    assert root.attributes["gen_ai.usage.output_tokens"] == 3
    assert f"{attempt.attributes['server.address']}:8000" == proxy.told.address
    assert proxy.told.headers["traceparent"] == f"00-{TRACE}-{attempt.span_id:016x}-01"
    assert "tracestate" not in proxy.told.removed


async def test_what_is_not_sampled_stays(traced):
    """Nothing about it is changed."""
    world, traces = await traced(1.0)
    proxy = await world.ask(traceparent=f"{PARENT}-00", tracestate="vendor=1")
    await proxy.serve(ANSWER)
    assert not traces
    assert "traceparent" not in proxy.told.headers


@pytest.mark.parametrize("ratio", [0.0, 1.0])
async def test_requests_without_a_trace(traced, ratio):
    """Get one; a state without a trace goes."""
    world, traces = await traced(ratio)
    proxy = await world.ask(tracestate="vendor=1")
    await proxy.serve(ANSWER)
    assert len(traces) == ratio
    assert re.fullmatch(f"00-[0-9a-f]{{32}}-[0-9a-f]{{16}}-0{ratio:.0f}", proxy.told.headers["traceparent"])
    assert proxy.told.removed == ["tracestate"]


async def test_rejected_requests_tell_their_trace(traced):
    """In a header of the response, and in the decision."""
    world, traces = await traced(1.0)
    told = await (await world.stream()).ask(
        completion("my-model"), x_headgate_explain="1", x_forwarded_for="127.0.0.1", subset=["1.1.1.1"]
    )
    (trace,) = traces
    headers = {each.header.key: each.header.raw_value.decode() for each in told.headers.set_headers}
    assert headers["x-headgate-trace-id"] == trace.trace_id
    assert f"trace={trace.trace_id}" in headers["x-headgate-decision"]


async def test_without_tracing_nothing_is_told(world):
    """The client's headers pass."""
    proxy = await world.ask(traceparent=f"{PARENT}-01")
    assert "traceparent" not in proxy.told.headers
