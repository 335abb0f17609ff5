"""However a request ends under a configured policy, its bookings end with it (B52, B54)."""

import pytest
import yaml

from headgate.api import ObjectRef

SCHEDULING = yaml.safe_load("""
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: active-request-scorer}, {type: token-load-scorer}, {type: no-hit-lru-scorer}]
""")


@pytest.fixture
async def gateway(start_gateway):
    return await start_gateway(settings={"scheduling_content": SCHEDULING})


async def test_a_client_that_leaves_is_counted_no_more(gateway, start_endpoint, eventually):
    """B52: gone before the answer, or amid a stream: nothing is in flight any more."""
    endpoints = [await start_endpoint(), await start_endpoint()]
    gateway.serve(endpoints)
    loads = gateway.shell.plane.pools[ObjectRef("ModelServer", "default", "pool")].loads
    waiting, streaming = await gateway.connect(), await gateway.connect()
    waiting.post()
    streaming.post({"model": "m", "prompt": "hello", "stream": True})
    await eventually(lambda: [len(each.calls) for each in endpoints] == [1, 1])
    assert [load.requests for load in loads] == [1, 1]
    call = next(each for endpoint in endpoints for each in endpoint.calls if each.json.get("stream"))
    call.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n")
    assert (await streaming.head()).status == 200
    waiting.close()
    streaming.close()
    await gateway.idle()
    assert [load.requests for load in loads] == [0, 0]


async def test_a_pod_that_is_not_ready_any_more_ends_what_it_has(gateway, start_endpoint):
    """B54: it gets no more requests at once, and the one that it serves is answered."""
    leaving, staying = await start_endpoint(), await start_endpoint(b"staying")
    gateway.serve([leaving])
    client = await gateway.connect()
    client.post()
    call = await leaving.call()
    gateway.serve([staying])
    for _ in range(3):
        assert (await gateway.ask()).body == b"staying"
    call.answer(b"in the end")
    assert (await client.response()).body == b"in the end"
    await gateway.idle()
