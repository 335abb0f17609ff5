"""Traces, learned values and logs of a prefill, even if it outlasts its request."""

import asyncio
import random
import time

import pytest

from headgate.dataplane.tracing import Tracer
from headgate.engines import transfer
from headgate.telemetry.tracing import SERVER, Export

EVENT = b'12\r\ndata: {"text":1}\n\n\r\n'


@pytest.mark.parametrize("connector", ["nixl", "sglang", "http"])
async def test_both_endpoints_are_told_of_one_trace(split, chat, handed_over, connector):
    """It is begun before the first of them is asked."""
    some = await split(connector, settings={"tracing_sample_ratio": 1.0})
    client = await some.gateway.connect()
    client.post(chat())
    prefill = await some.prefill[0].call()
    handed_over(prefill)
    decode = await some.decode[0].call()
    decode.answer(b"{}")
    await client.response()
    assert prefill.header("traceparent") == decode.header("traceparent") is not None


@pytest.mark.parametrize("status", [200, 503])
async def test_a_prefill_that_outlasts_its_request_is_learned_from(
    split, chat, handed_over, eventually, status
):
    """How long it took, or that its endpoint wants a rest."""
    some = await split("sglang")
    client = await some.gateway.connect()
    client.post(chat())
    prefill = await some.prefill[0].call()
    (await some.decode[0].call()).answer(b"{}")
    assert (await client.response()).status == 200
    if status == 200:
        handed_over(prefill)
        await eventually(lambda: some.gateway.metric("headgate_gateway_prefill_seconds_count") == 1)
    else:
        prefill.answer(b"busy", "503 Busy", **{"retry-after": "30"})
        await eventually(lambda: some.load(some.prefill[0]).resting_until > 0)
        assert some.gateway.metric("headgate_gateway_ejections_total", reason="retry_after") == 1
    await eventually(lambda: some.load(some.prefill[0]).requests == 0)


async def test_what_the_client_has_is_counted_when_the_prefill_fails(split, chat, eventually):
    """Bytes that went straight to the client are in the books, too."""
    some = await split("sglang")
    client = await some.gateway.connect()
    client.post(chat(stream=True))
    prefill, decode = await some.prefill[0].call(), await some.decode[0].call()
    decode.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    await asyncio.sleep(0.02)
    (connection,) = some.gateway.shell.clients.all
    for count in range(1, 6):
        decode.write(EVENT)
        await eventually(lambda count=count: connection.exchange.bytes_so_far == count * len(EVENT))
    prefill.answer(b"no", "500 Broken")
    await eventually(lambda: some.gateway.settled == 1)
    assert some.gateway.metric("headgate_gateway_body_bytes_total", direction="out") == 5 * len(EVENT)


async def test_a_connector_that_fails_is_a_fault_of_ours(split, chat, handed_over, monkeypatch, eventually):
    """The client hears of it, nothing is left, and the next request is served."""
    some = await split("sglang")
    some.prefill[0].behave = handed_over
    some.decode[0].behave = lambda call: call.answer(b"{}")
    assert (await some.gateway.ask(chat())).status == 200
    await some.gateway.idle()
    with monkeypatch.context() as patched:

        def broken(*_):
            raise RuntimeError("broken")

        patched.setattr(type(transfer.connector("sglang")), "decode", broken)
        assert (await some.gateway.ask(chat())).status == 500
    await eventually(lambda: some.gateway.settled == 2)
    assert some.gateway.shell.plane.ledger.statistics()["requests"] == 0
    assert some.gateway.shell.services.bodies.held == 0
    assert (await some.gateway.ask(chat())).status == 200


class Kept(list):
    """The finished traces of a gateway."""

    def of(self, gateway):
        export = Export(endpoint="", shown="", ratio=1.0, follows_parents=True)
        gateway.recorder.tracer = Tracer(
            gateway.shell.settings.tracing, export, random.Random(1), self.append, time.time, kind=SERVER
        )
        return self


@pytest.mark.parametrize("connector", ["nixl", "sglang"])
async def test_both_phases_have_spans(split, chat, handed_over, events, eventually, connector):
    """The prefill is at another endpoint, which is told so; both belong to the attempt."""
    some = await split(connector)
    traces = Kept().of(some.gateway)
    client = await some.gateway.connect()
    client.post(chat(stream=True))
    prefill = await some.prefill[0].call()
    if connector == "nixl":
        handed_over(prefill, cached=64)
        decode = await some.decode[0].call()
    else:
        decode = await some.decode[0].call()
        handed_over(prefill, cached=64)
    decode.write(events.head + events.text(b"deep") + events.end)
    await client.response()
    await eventually(lambda: traces)
    named = {span.name: span for span in traces[0].spans}
    assert list(named) == ["chat m", "pick", "attempt", "decode", "prefill"]
    attempt = named["attempt"]
    assert named["prefill"].parent_id == named["decode"].parent_id == attempt.span_id
    assert named["prefill"].attributes["server.port"] == some.prefill[0].port
    assert attempt.attributes["server.port"] == some.decode[0].port
    assert named["prefill"].attributes["gen_ai.usage.cache_read.input_tokens"] == 64
    assert named["prefill"].end_ns <= named["decode"].start_ns or connector == "sglang"
    assert named["pick"].attributes["headgate.pick.prefill"] == "remote"
    for call, span in ((prefill, named["prefill"]), (decode, attempt)):
        assert call.header("traceparent") == f"00-{traces[0].trace_id}-{span.span_id:016x}-01"


async def test_a_prefill_that_failed_has_a_span(split, chat, handed_over, eventually):
    """Beside the attempt that went well."""
    some = await split(prefill=2)
    traces = Kept().of(some.gateway)
    client = await some.gateway.connect()
    client.post(chat())
    calls = [asyncio.ensure_future(endpoint.call()) for endpoint in some.prefill]
    (first,), others = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    (await first).answer(b"broken", "500 Broken")
    (second,) = others
    handed_over(await second)
    (await some.decode[0].call()).answer(b"{}")
    assert (await client.response()).status == 200
    await eventually(lambda: traces)
    spans = traces[0].spans
    failed, well = [span for span in spans if span.name == "prefill"]
    (attempt,) = [span for span in spans if span.name == "attempt"]
    assert (failed.error, well.error) == ("prefill_status_500", None)
    assert failed.attributes["error.type"] == "prefill_status_500"
    assert failed.parent_id == spans[0].span_id
    assert well.parent_id == attempt.span_id
