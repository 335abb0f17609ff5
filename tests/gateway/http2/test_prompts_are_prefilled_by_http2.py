"""With disaggregated prefill and decode, both endpoints get HTTP/2 if their pool says so."""

import json

import pytest

from headgate import routing

PARAMS = {"remote_block_ids": [1, 2], "remote_engine_id": "e-1"}


def prefilled(call):
    call.answer(json.dumps({"choices": [], "kv_transfer_params": PARAMS}).encode())


@pytest.fixture
async def pair(start_gateway, start_http2_endpoint):
    """A gateway, the endpoint that prefills, and the one that decodes."""
    endpoints = [await start_http2_endpoint(), await start_http2_endpoint()]
    gateway = await start_gateway()
    made = [
        routing.Endpoint(f"default/pod-{place}", "127.0.0.1", each.port)
        for place, each in enumerate(endpoints)
    ]
    roles = {
        made[0]: routing.Role(prefills=True, decodes=False, group="g"),
        made[1]: routing.Role(prefills=False, decodes=True, group="g"),
    }
    phases = routing.PrefillDecode(connector="nixl", roles=roles, remote_tokens=0)
    gateway.serve(endpoints, phases=phases, http2=True)
    return gateway, *endpoints


async def test_what_the_first_hands_over_reaches_the_second(pair):
    """The answer of the one is read, and the other gets what it says."""
    gateway, prefill, decode = pair
    prefill.behave = prefilled
    decode.behave = lambda call: call.answer(b"decoded")
    for _ in range(2):
        assert (await gateway.ask()).body == b"decoded"
    assert [call.json["max_tokens"] for call in prefill.calls] == [1, 1]
    assert [call.json["kv_transfer_params"] for call in decode.calls] == [PARAMS, PARAMS]
    assert (len(prefill.connections), len(decode.connections)) == (1, 1)


async def test_a_prefill_that_is_reset_is_done_where_the_answer_is_made(pair):
    """The endpoint that decodes gets the prompt as its client sent it."""
    gateway, prefill, decode = pair
    prefill.behave = lambda call: call.reset()
    decode.behave = lambda call: call.answer(b"decoded")
    assert (await gateway.ask()).body == b"decoded"
    assert decode.calls[0].json == {"model": "m", "prompt": "hello"}
    assert gateway.metric("headgate_gateway_attempts_failed_total", reason="prefill_reset") == 1
