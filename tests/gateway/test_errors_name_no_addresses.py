"""Errors for clients name no internal address, Pod, host or file; the access log does.

Every error that any other test of the gateway reads is checked for the same in `conftest.py`.
"""

import pytest


def reset(call):
    call.reset()


def garbage(call):
    call.write(b"10.1.2.3 speaks no HTTP\r\n\r\n")
    call.close()


def cut_off_events(call):
    call.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    call.write(b"9\r\ndata: 1\n\n\r\n")
    call.reset()


def inside(gateway) -> list[str]:
    """Of the endpoints: addresses, ports and names."""
    endpoints = [load.endpoint for load in gateway.shell.plane.ledger.loads()]
    return [text for each in endpoints for text in (each.address, each.host, str(each.port), each.name)]


@pytest.mark.parametrize("behave", [reset, garbage, cut_off_events], ids=lambda each: each.__name__)
async def test_endpoints_that_fail(start_gateway, start_endpoint, behave):
    """However they do: before the answer, instead of one, or amid a stream."""
    endpoint = await start_endpoint(behave=behave)
    gateway = await start_gateway(endpoint, settings={"endpoints_retries": 0})
    hidden = inside(gateway)
    client = await gateway.connect()
    client.post({"model": "m", "stream": True}, connection="close")
    received = (await client.rest()).decode()
    assert '"error"' in received
    assert not [text for text in hidden if text in received]
    assert "10.1.2.3" not in received
    [line] = gateway.log_lines()
    assert hidden[0] in line or hidden[-1] in line


async def test_endpoints_that_are_not_there(start_gateway, start_endpoint):
    """Nor does a connection that cannot be made tell where to; the log tells both where and why."""
    endpoint = await start_endpoint()
    gateway = await start_gateway(endpoint, settings={"endpoints_retries": 0})
    hidden = inside(gateway)
    await endpoint.stop()
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (503, "endpoint_unreachable")
    assert not [text for text in hidden if text in response.body.decode()]
    [line] = gateway.log_lines()
    assert f"{hidden[0]} cannot be connected to" in line


async def test_endpoints_that_are_silent(start_gateway, endpoint):
    """A timeout is the same."""
    gateway = await start_gateway(endpoint, settings={"endpoints_retries": 0}, timeout_s=0.01)
    hidden = inside(gateway)
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (504, "upstream_timeout")
    assert not [text for text in hidden if text in response.body.decode()]
    [line] = gateway.log_lines()
    assert hidden[0] in line


async def test_pools_that_are_set_wrongly(start_gateway, endpoint):
    """What is wrong with the Secret of a pool is for its status and the log."""
    fault = "Secret default/inside has no key ca.crt (its keys: token)"
    gateway = await start_gateway(endpoint, fault=fault)
    gateway.serve([], fault=fault)
    response = await gateway.ask()
    assert (response.status, response.json["error"]["code"]) == (503, "no_ready_endpoint")
    assert "inside" not in response.body.decode()
    assert "see its status" in response.json["error"]["message"]
    [line] = gateway.log_lines()
    assert "Secret default/inside" in line
