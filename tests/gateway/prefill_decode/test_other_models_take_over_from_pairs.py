"""A pair that fails leaves its request to the next model or pool, before its answer has begun."""

import pytest

from headgate import api, routing
from headgate.api.fallbacks import USUAL

SPARE = api.ObjectRef("ModelServer", "default", "spare")


@pytest.fixture
async def fallen(split, start_endpoint):
    """A pair of SGLang, and an endpoint of another pool that takes over."""
    some = await split("sglang")
    spare = await start_endpoint(b'{"ok":true}')
    snapshot = some.gateway.shell.plane.snapshot
    fallback = routing.Fallback(next=(routing.Next("", SPARE),), reasons=USUAL)
    endpoint = routing.Endpoint("default/spare", "127.0.0.1", spare.port)
    (pool,) = snapshot.pools.values()
    pools = {
        pool.key: routing.Pool(key=pool.key, endpoints=pool.endpoints, phases=pool.phases, fallback=fallback),
        SPARE: routing.Pool(key=SPARE, endpoints=(endpoint,)),
    }
    some.gateway.shell.use(routing.Snapshot(models=snapshot.models, pools=pools))
    some.spare = spare
    return some


FAULTS = {
    "the head is not HTTP": lambda prefill, decode: decode.write(b"HTTP/1.1 what\r\n\r\n"),
    "the prefill fails": lambda prefill, decode: prefill.answer(b"theirs", "500 Error"),
    "the prefill is full": lambda prefill, decode: prefill.answer(b"theirs", "429 Busy"),
    "the prefill is reset": lambda prefill, decode: prefill.reset(),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_another_pool_takes_over(fallen, chat, fault):
    """And nothing is left booked on the pair."""
    client = await fallen.gateway.connect()
    client.post(chat(stream=True))
    prefill, decode = await fallen.prefill[0].call(), await fallen.decode[0].call()
    FAULTS[fault](prefill, decode)
    response = await client.response()
    assert (response.status, response.body) == (200, b'{"ok":true}')
    assert response.header("x-headgate-fallback") == "m;error"
    await fallen.gateway.idle()
