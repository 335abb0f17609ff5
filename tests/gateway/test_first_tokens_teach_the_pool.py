"""The gateway learns prefill rates from the first bytes of streams, and from nothing else."""

import pytest

EVENTS = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: [DONE]\n\n'
BODY = {"model": "m", "messages": [{"role": "user", "content": "x" * 8000}]}


def rates(gateway):
    (pool,) = gateway.shell.plane.pools.values()
    return pool.rates


async def asked(start_gateway, start_endpoint, sent, times=3, **answer):
    endpoint = await start_endpoint(behave=lambda call: call.answer(**answer))
    gateway = await start_gateway(endpoint)
    for _ in range(times):
        await gateway.ask(sent)
    assert len(endpoint.calls) == times
    return gateway


async def test_a_stream_teaches(start_gateway, start_endpoint):
    """Each first byte is one observation, from the second request on: one ends what is observed together."""
    streamed = BODY | {"stream": True}
    gateway = await asked(start_gateway, start_endpoint, streamed, body=EVENTS)
    assert rates(gateway).observations >= 2


@pytest.mark.parametrize("status", ["400 Bad Request", "429 Too Many Requests", "500 Internal Server Error"])
async def test_an_error_teaches_nothing(start_gateway, start_endpoint, status):
    """It comes at once, however long the prompt; nothing waits afterwards."""
    streamed = BODY | {"stream": True}
    gateway = await asked(start_gateway, start_endpoint, streamed, status=status, body=b'{"error":{}}')
    assert rates(gateway).observations == 0
    (load,) = gateway.shell.plane.ledger.loads()
    assert load.estimator.queue_s(gateway.shell.now() + 5.0) == 0.0
    assert load.work_tokens == 0


async def test_an_answer_in_one_piece_teaches_nothing(start_gateway, start_endpoint):
    """Its first byte comes with its last token."""
    gateway = await asked(start_gateway, start_endpoint, BODY, body=b"{}")
    assert rates(gateway).observations == 0
