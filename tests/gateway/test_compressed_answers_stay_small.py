"""A few kilobytes from an engine that decompress to gigabytes use only a few kilobytes."""

import gzip
import resource
import zlib

import brotli
import pytest

MB = 1 << 20
PLAIN = b'{"model":"m","choices":[],"usage":{"prompt_tokens":1}}' + b" " * 64 * MB
BOMBS = {
    "gzip": ("gzip", gzip.compress(PLAIN)),
    "deflate": ("deflate", zlib.compress(PLAIN)),
    "br": ("br", brotli.compress(PLAIN, quality=1)),
    "br with a long window": ("br", brotli.compress(PLAIN, quality=5, lgwin=24)),
    "gzip twice": ("gzip, gzip", gzip.compress(gzip.compress(PLAIN))),
}


def peak_kb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("coding", "body"), BOMBS.values(), ids=BOMBS)
async def test_a_client_gets_what_the_endpoint_sent(gateway, endpoint, stream, coding, body):
    """Its bytes as they are, with the header that says what they are."""
    before = peak_kb()
    client = await gateway.connect()
    client.post({"model": "m", "stream": stream})
    kind = "text/event-stream" if stream else "application/json"
    (await endpoint.call()).answer(body, **{"content-encoding": coding, "content-type": kind})
    response = await client.response()
    assert (response.status, response.body, response.header("content-encoding")) == (200, body, coding)
    assert peak_kb() - before < 16 * 1024


@pytest.mark.parametrize("headers", [{}, {"content-encoding": "identity"}])
async def test_nothing_is_made_for_an_answer_that_is_not_compressed(gateway, endpoint, headers):
    """Its counts are read in its bytes."""
    gateway.shell.services.inflating = None
    endpoint.behave = lambda call: call.answer(b'{"usage":{"prompt_tokens":3}}', **headers)
    assert (await gateway.ask()).status == 200
    await gateway.idle()
    assert gateway.metric("headgate_gateway_requests_total", outcome="served") == 1


@pytest.mark.parametrize(("coding", "body"), BOMBS.values(), ids=BOMBS)
async def test_pages_of_an_engine_are_not_inflated(start_gateway, start_endpoint, eventually, coding, body):
    """Its metrics and its list of models count as missing; requests go there as before."""
    asked = []

    def behave(call):
        asked.append(call.target)
        if call.method == "GET":
            call.answer(body, **{"content-encoding": coding})
        else:
            call.answer(b"served")

    quick = {"engine_metrics_interval_s": 0.05, "engine_metrics_max_per_s": 1000}
    before = peak_kb()
    gateway = await start_gateway(await start_endpoint(behave=behave), settings=quick)
    gateway.shell.scraper.start()
    await eventually(lambda: asked.count("/metrics") >= 2 and "/v1/models" in asked)
    (load,) = gateway.shell.plane.ledger.loads()
    assert load.reading is None
    assert (await gateway.ask()).body == b"served"
    assert peak_kb() - before < 16 * 1024
