"""At the end of a request its route has used what the engine counted, and nothing if nothing was done."""

import json

import pytest

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(**content: object) -> bytes:
    return chunk(b"data: %b\n\n" % json.dumps(content, separators=(",", ":")).encode())


TOKEN = event(choices=[{"index": 0, "delta": {"content": "water"}}])
LAST = event(choices=[{"index": 0, "delta": {"content": "gate!"}}])
LIMITS = {"input": 1000, "output": 1000}


async def test_counts_of_the_engine_go_before_the_estimate(
    start_gateway, start_endpoint, per_month, prompt, counted, left
):
    """Too much that was reserved comes back, too little is charged."""
    gateway = await start_gateway(await start_endpoint(counted(30, 7)), limits=per_month(**LIMITS))
    await gateway.ask(prompt(8))
    assert left(gateway) == (970, 993)
    gateway = await start_gateway(await start_endpoint(counted(3, 400)), limits=per_month(**LIMITS))
    await gateway.ask(prompt(8))
    assert left(gateway) == (997, 600)


async def test_while_a_request_runs_its_estimate_is_taken(
    gateway, endpoint, per_month, prompt, counted, left
):
    """The prompt as its bytes have it, and an answer of the usual length or as long as the client allows."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8))
    call = await endpoint.call()
    assert left(gateway) == (992, 750)
    call.answer(counted(8, 20))
    await client.response()
    client.post(prompt(8, max_tokens=5))
    call = await endpoint.call()
    assert left(gateway) == (984, 975)
    call.answer(counted(8, 5))
    await client.response()
    assert left(gateway) == (984, 975)


async def test_a_stream_is_settled_by_its_usage(gateway, endpoint, per_month, prompt, left):
    """The counts that the gateway asked the engine for, and took out of the answer again."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8, stream=True))
    call = await endpoint.call()
    call.write(STREAM + TOKEN * 3)
    call.write(event(choices=[], usage={"prompt_tokens": 12, "completion_tokens": 5}) + b"0\r\n\r\n")
    response = await client.response()
    assert b"usage" not in response.body
    assert left(gateway) == (988, 995)


async def test_a_client_that_leaves_pays_for_what_came(
    gateway, endpoint, per_month, prompt, left, eventually
):
    """The prompt as estimated, and a token for each event that came until then."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8, stream=True))
    call = await endpoint.call()
    call.write(STREAM + TOKEN * 24 + LAST)
    await client.reader.readuntil(b"gate!")
    client.close()
    await eventually(lambda: gateway.settled == 1)
    assert left(gateway) == (992, 975)


async def test_a_client_that_leaves_before_the_answer_pays_nothing(
    gateway, endpoint, per_month, prompt, left, eventually
):
    """All comes back."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8))
    await endpoint.call()
    client.close()
    await eventually(lambda: gateway.settled == 1)
    assert left(gateway) == (1000, 1000)


async def test_an_endpoint_that_breaks_off_counts_as_far_as_it_came(
    gateway, endpoint, per_month, prompt, left
):
    """What the client got of the answer was generated."""
    gateway.serve([endpoint], per_month(**LIMITS))
    client = await gateway.connect()
    client.post(prompt(8, stream=True))
    call = await endpoint.call()
    call.write(STREAM + TOKEN * 9 + LAST)
    await client.reader.readuntil(b"gate!")
    call.reset()
    await client.rest()
    assert left(gateway) == (992, 990)


@pytest.mark.parametrize("status", ["400 Bad Request", "429 Too Many Requests", "500 Internal Server Error"])
async def test_errors_of_an_endpoint_cost_nothing(
    start_gateway, start_endpoint, per_month, prompt, left, status
):
    """An engine that refuses has done no work."""
    endpoint = await start_endpoint(behave=lambda call: call.answer(b'{"error":{}}', status))
    gateway = await start_gateway(endpoint, limits=per_month(**LIMITS))
    assert (await gateway.ask(prompt(8))).status == int(status[:3])
    assert left(gateway) == (1000, 1000)


async def test_attempts_on_several_endpoints_count_once(
    start_gateway, start_endpoint, per_month, prompt, counted, left
):
    """Whoever answers in the end."""
    dead = await start_endpoint(behave=lambda call: call.close())
    alive = await start_endpoint(counted(8, 5))
    gateway = await start_gateway(dead, alive, limits=per_month(**LIMITS))
    for place in range(1, 4):
        assert (await gateway.ask(prompt(8))).status == 200
        assert left(gateway) == (1000 - 8 * place, 1000 - 5 * place)
    assert dead.calls


async def test_no_endpoint_costs_nothing(start_gateway, endpoint, per_month, prompt, left):
    """A pool that cannot serve leaves the limit as it was."""
    gateway = await start_gateway(endpoint, limits=per_month(**LIMITS))
    gateway.serve([], per_month(**LIMITS))
    assert (await gateway.ask(prompt(8))).status == 503
    assert left(gateway) == (1000, 1000)


async def test_an_answer_without_counts_is_estimated(start_gateway, start_endpoint, per_month, prompt, left):
    """The prompt stays as it was estimated, and four bytes of the answer count as a token."""
    gateway = await start_gateway(await start_endpoint(b"x" * 100), limits=per_month(**LIMITS))
    assert (await gateway.ask(prompt(8))).status == 200
    assert left(gateway) == (992, 975)


async def test_what_was_cached_counts_in_anthropics_api_too(
    start_gateway, start_endpoint, per_month, prompt, left
):
    """It tells cached tokens apart from the others of the prompt."""
    answer = b'{"usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":4}}'
    gateway = await start_gateway(await start_endpoint(answer), limits=per_month(**LIMITS))
    assert (await gateway.ask(prompt(8), "/v1/messages")).status == 200
    assert left(gateway) == (900, 996)
