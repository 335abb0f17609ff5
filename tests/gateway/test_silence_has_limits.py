"""Timeouts for silence: of an endpoint before its response, and of a client that stops reading it."""

import asyncio

import pytest

pytestmark = pytest.mark.every_loop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Looks for silence a hundred times a second."""
    monkeypatch.setattr("headgate.gateway.shell.SWEEP_INTERVAL_S", 0.01)


async def test_endpoint_that_accepts_and_hangs(start_gateway, start_endpoint):
    """Without any `timeout`, another endpoint gets the request after the default time."""
    hanging = await start_endpoint()
    gateway = await start_gateway(
        hanging, await start_endpoint(b"alive"), settings={"endpoints_response_timeout_s": 600}
    )
    asking = asyncio.create_task(gateway.ask())
    await hanging.call()
    gateway.move(601)
    assert (await asking).body == b"alive"
    assert gateway.metric("headgate_gateway_attempts_failed_total", reason="timeout") == 1
    await hanging.connections[0].lost


@pytest.mark.parametrize(
    ("stream", "setting"), [(True, "stream_response_timeout_s"), (False, "response_timeout_s")]
)
async def test_streams_and_whole_answers_have_times_of_their_own(start_gateway, endpoint, stream, setting):
    """The head of a stream comes before its tokens, that of a whole answer after all of them."""
    gateway = await start_gateway(endpoint, settings={f"endpoints_{setting}": 0.05})
    response = await gateway.ask({"model": "m", "stream": stream})
    assert (response.status, response.json["error"]["code"]) == (504, "upstream_timeout")


async def test_pools_that_say_how_long(start_gateway, endpoint):
    """`timeout` counts, also where it is longer than the default."""
    gateway = await start_gateway(endpoint, timeout_s=60, settings={"endpoints_response_timeout_s": 0.01})
    client = await gateway.connect()
    client.post()
    call = await endpoint.call()
    await asyncio.sleep(0.1)
    call.answer(b"late")
    assert (await client.response()).body == b"late"


async def test_several_requests_that_hang_on_one_endpoint(start_gateway, start_endpoint, eventually):
    """The endpoint is ejected before any of them has failed, and none is interrupted."""
    hanging, other = await start_endpoint(), await start_endpoint(b"other")
    gateway = await start_gateway(hanging, settings={"endpoints_hang_s": 60})
    clients = [await gateway.connect() for _ in range(3)]
    for client in clients:
        client.post()
    calls = [await hanging.call() for _ in clients]
    gateway.serve([hanging, other])
    gateway.move(61)
    async with asyncio.timeout(30):
        while not gateway.metric("headgate_gateway_ejections_total", reason="hang"):
            assert (await gateway.ask()).body == b"other"
    for call in calls:
        call.answer(b"at last")
    assert [(await client.response()).body for client in clients] == [b"at last"] * 3
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 0
    assert gateway.shell.plane.ledger.loads()[0].ejection.until <= gateway.shell.now()


async def test_client_that_reads_nothing_more(start_gateway, start_endpoint, eventually):
    """It is given up with its endpoint's work, which is not blamed for it."""
    endpoint = await start_endpoint()
    gateway = await start_gateway(endpoint, settings={"endpoints_stream_idle_timeout_s": 600})
    client = await gateway.connect(receive_buffer=4096)
    client.post()
    call = await endpoint.call()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n" + b"x" * 50_000_000)
    (connection,) = gateway.shell.clients.all
    await eventually(lambda: connection.is_paused)
    await eventually(lambda: gateway.settled or gateway.move(1))
    assert "outcome=client_stalled" in gateway.log_lines()[0]
    assert gateway.metric("headgate_gateway_attempts_failed_total") == 0
    await endpoint.connections[0].lost


async def test_interim_responses_without_end(start_gateway, start_endpoint):
    """They count towards the head, and so end as an answer that is no HTTP."""

    def flood(call):
        call.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000)

    gateway = await start_gateway(await start_endpoint(behave=flood))
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (502, "upstream_invalid")


async def test_retries_beyond_the_budget(start_gateway, start_endpoint):
    """While all fails, requests are tried again only as long as the budget lasts; the metric tells."""
    busy = [await start_endpoint(behave=lambda call: call.answer(b"busy", "503 Busy")) for _ in range(2)]
    gateway = await start_gateway(*busy)
    for _ in range(150):
        assert (await gateway.ask()).body == b"busy"
    granted = gateway.metric("headgate_gateway_retries_total", granted="yes")
    denied = gateway.metric("headgate_gateway_retries_total", granted="no")
    assert granted + denied == 150
    assert denied > 0
    assert sum(len(endpoint.calls) for endpoint in busy) == 150 + granted
