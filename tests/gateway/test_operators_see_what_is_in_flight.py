"""Pages of the admin port that show the current requests and endpoints."""

import asyncio

import httpx2
import pytest

from headgate.gateway import pages


async def _page(gateway, path, status=200):
    transport = httpx2.ASGITransport(app=pages.admin_page(gateway.shell))
    async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
        response = await client.get(path)
    assert response.status_code == status
    return response.json()


async def _requests(gateway, query=""):
    return (await _page(gateway, f"/debug/requests{query}"))["requests"]


async def _endpoint(gateway, place=0):
    return (await _page(gateway, "/debug/endpoints"))["default/pool"][place]


async def test_request_from_its_beginning_to_its_end(gateway, endpoint, eventually):
    """Each phase is told, with the place, the time and the bytes of the moment; at the end it is gone."""
    assert await _page(gateway, "/debug/requests") == {"total": 0, "sent_ahead": 0, "requests": []}
    client = await gateway.connect()
    client.send(b"POST /v1/completions HTTP/1.1\r\nhost: g\r\nx-request-id: mine\r\n")
    connection = await gateway.taken()
    await eventually(lambda: connection.reading_since is not None)
    (shown,) = await _requests(gateway)
    assert (shown["client"], shown["phase"]) == ("127.0.0.1", "reading")
    client.send(b'content-length: 27\r\n\r\n{"model":"m","stream":true}')
    call = await endpoint.call()
    (shown,) = await _requests(gateway)
    expected = {
        "client": "127.0.0.1",
        "phase": "sent",
        "id": "mine",
        "method": "POST",
        "path": "/v1/completions",
        "model": "m",
        "stream": True,
        "route": "default/route",
        "pool": "default/pool",
        "endpoint": "default/pod-0",
        "address": f"127.0.0.1:{endpoint.port}",
        "attempts": 1,
        "status": None,
        "bytes": 0,
        "first_byte_s": None,
        "is_client_slow": False,
        "bytes_to_come": 0,
        "sent_ahead": 0,
    }
    assert expected.items() <= shown.items()
    call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n01234")
    await client.head()
    assert await client.reader.readexactly(5) == b"01234"
    call.write(b"56789")
    assert await client.reader.readexactly(5) == b"56789"
    now = asyncio.get_running_loop().time() + 100
    gateway.shell.services.now = lambda: now
    (shown,) = await _requests(gateway)
    assert (shown["phase"], shown["status"], shown["bytes"]) == ("answering", 200, 10)
    assert 100 <= shown["age_s"] < 110
    assert 0 <= shown["first_byte_s"] < 10
    call.write(b"abcde")
    assert await client.reader.readexactly(5) == b"abcde"
    await eventually(lambda: gateway.settled)
    assert await _requests(gateway) == []


async def test_request_between_attempts(start_gateway, start_endpoint, eventually):
    """A request that waits for its next attempt has no endpoint; one that connects has."""
    failing = await start_endpoint(behave=lambda call: call.answer(b"", "503 Busy"))
    gateway = await start_gateway(failing, await start_endpoint(), attempts=1, retry_interval_s=60)
    timers = gateway.timers
    client = await gateway.connect()
    client.post()
    connecting = await _until_shown(gateway, "connecting")
    assert (connecting["endpoint"], connecting["attempts"]) == ("default/pod-0", 1)
    waiting = await _until_shown(gateway, "waiting to retry")
    assert (waiting["endpoint"], waiting["attempts"]) == (None, 1)
    timers.end(60)
    sent = await _until_shown(gateway, "sent")
    assert (sent["endpoint"], sent["attempts"]) == ("default/pod-1", 2)
    client.close()
    await eventually(lambda: not gateway.shell.clients.all)


async def _until_shown(gateway, phase):
    async with asyncio.timeout(60):
        while True:
            for shown in await _requests(gateway):
                if shown["phase"] == phase:
                    return shown
            await asyncio.sleep(0)


async def test_oldest_requests_come_first(gateway, endpoint):
    """However many there are, the list is short unless asked otherwise, and says how many there are."""
    clients = [await gateway.connect() for _ in range(5)]
    calls = []
    base = gateway.shell.now()
    for place, client in enumerate(clients):
        gateway.shell.services.now = lambda place=place: base + place
        client.post(X_Request_Id=f"request-{place}")
        calls.append(await endpoint.call())
    clients[4].post()
    async with asyncio.timeout(60):
        while (await _page(gateway, "/debug/requests"))["total"] < 6:
            await asyncio.sleep(0)
    page = await _page(gateway, "/debug/requests?limit=2")
    assert [shown["id"] for shown in page["requests"]] == ["request-0", "request-1"]
    assert (page["total"], page["sent_ahead"]) == (6, 1)
    assert len(await _requests(gateway)) == 5
    endpoint.behave = lambda call: call.answer()
    for call in calls:
        call.answer()
    for client in clients:
        await client.response()
    await clients[4].response()


@pytest.mark.parametrize("limit", ["0", "-1", "x", "", "10001", "9" * 5000, "1e3", "²"])
async def test_limit_that_is_none(gateway, limit):
    """A message says what is needed, whatever was given."""
    assert (
        "a number from 1 to 10000" in (await _page(gateway, f"/debug/requests?limit={limit}", 400))["message"]
    )


async def test_health_of_endpoints(start_gateway, start_endpoint):
    """An endpoint's state, its failures, and how long it is still out are shown, from failure to return."""
    failing = await start_endpoint(behave=lambda call: call.reset())
    gateway = await start_gateway(
        failing, await start_endpoint(b"alive"), settings={"endpoints_ejection_failures": 2}
    )
    loop, ahead = asyncio.get_running_loop(), 0.0
    gateway.shell.services.now = lambda: loop.time() + ahead
    assert (await _endpoint(gateway))["state"] == "healthy"
    await gateway.ask()
    shown = await _endpoint(gateway)
    assert (shown["state"], shown["failures_in_row"], shown["ejections"]) == ("avoided", 1, 0)
    ahead += 1.1
    await gateway.ask()
    shown = await _endpoint(gateway)
    assert (shown["state"], shown["failures"], shown["ejections"]) == ("ejected", 2, 1)
    assert shown["ejected_after"].startswith("2 failures in a row, the last: ")
    assert 4 < shown["ejected_for_another_s"] <= 5
    assert (shown["share"], 0 <= shown["last_failure_s_ago"] < 1) == (0, True)
    assert gateway.metric("headgate_gateway_ejections_total") == 1
    ahead += 6
    shown = await _endpoint(gateway)
    assert (shown["state"], shown["ejected_for_another_s"]) == ("returning", 0)
    assert 0.1 <= shown["share"] < 0.3


async def test_work_and_connections_of_endpoints(gateway, endpoint, eventually):
    """What an endpoint has been given, and the connections to it, in use and idle."""
    clients = [await gateway.connect() for _ in range(2)]
    for client in clients:
        client.post()
    calls = [await endpoint.call() for _ in clients]
    calls[0].answer()
    await eventually(lambda: gateway.settled)
    shown = await _endpoint(gateway)
    assert (shown["requests"], shown["requests_started"], shown["state"]) == (1, 2, "healthy")
    assert shown["work_tokens"] > 200
    assert shown["connections"] == {"open": 2, "idle": 1}
    calls[1].answer()
