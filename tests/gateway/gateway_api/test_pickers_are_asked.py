"""A pool with a picker of its own is served as that picker says, by external processing over gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from scripted_picker import DESTINATION, Picker, Stream, at

from headgate import extproc, routing, rpc
from headgate.gateway.gateway_api import picked

BODY = b'{"model":"m","prompt":"hi"}'


@pytest.fixture
async def picker(held_port):
    made = Picker(held_port())
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def serve(front, service, picker):
    """Serves a pool of these endpoints with the picker."""

    async def serving(*endpoints: Any, fails_open: bool = False, name: str = "epp", fault: str = "") -> None:
        asked = routing.Picker(name, 80, fails_open, fault)
        pool = front.pool("llama", *endpoints, picker=asked)
        objects = service("epp", picker, appProtocol="kubernetes.io/h2c")
        await front.route({"backendRefs": [pool]}, objects_=objects)

    return serving


async def test_the_endpoint_that_the_picker_names_serves(front, start_endpoint, serve, picker):
    """C10: whatever this gateway itself would have picked."""
    endpoints = [await start_endpoint(b"%d" % number) for number in range(3)]
    await serve(*endpoints)
    for number, endpoint in enumerate(endpoints):
        address = at(endpoint)
        picker.answer = lambda stream, to=address: stream.pick(to)
        for _ in range(3):
            response = await front.ask("/v1/completions", "POST", BODY, x_own="1")
            assert (response.status, response.body) == (200, b"%d" % number)
    stream = picker.streams[0]
    assert stream.body == BODY
    assert stream.headers[b":path"] == b"/v1/completions"
    assert stream.headers[b":method"] == b"POST"
    assert stream.headers[b":authority"] == b"shop.example"
    assert stream.headers[b"x-own"] == b"1"
    assert stream.mode.request_body_mode == extproc.FULL_DUPLEX_STREAMED
    call = endpoints[0].calls[0]
    assert (call.body, call.header(DESTINATION.decode())) == (BODY, at(endpoints[0]))


async def test_copies_of_bodies_count(front, start_endpoint, serve, picker, eventually):
    """While the picker is asked, a body is held several times; without memory for that, it is refused."""
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint)
    picker.answer = lambda stream: None
    bodies = front.gateway.shell.services.bodies
    asking = asyncio.create_task(front.ask("/", "POST", b"x" * 5000))
    await eventually(lambda: picker.streams)
    assert bodies.held == 15_000
    bodies.change(25_000, 1000)
    response = await front.ask("/", "POST", b"x" * 5000)
    assert response.status == 503
    assert b"too_many_body_bytes" in response.body
    assert bodies.held == 15_000
    picker.streams[0].pick(at(endpoint))
    assert (await asking).body == b"ok"
    await eventually(lambda: bodies.held == 0)


async def test_requests_of_many_clients_share_a_connection(front, start_endpoint, serve, picker):
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint)
    picker.answer = lambda stream: stream.pick(at(endpoint))
    responses = await asyncio.gather(*(front.ask("/", "POST", BODY) for _ in range(20)))
    assert {response.status for response in responses} == {200}
    assert len({id(stream.call.peer) for stream in picker.streams}) >= 1
    assert len(picker.streams) == 20


async def test_a_request_without_a_body_is_picked_by_its_head(front, start_endpoint, serve, picker):
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint)
    picker.answer = lambda stream: stream.pick(at(endpoint))
    assert (await front.ask("/models")).body == b"ok"
    assert endpoint.calls[0].method == "GET"


async def test_headers_and_body_may_be_changed(front, start_endpoint, serve, picker):
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint)
    picker.answer = lambda stream: stream.pick(
        at(endpoint), body=b'{"model":"other, longer"}', new="1", old="2"
    )
    await front.ask("/v1/completions", "POST", BODY, old="1")
    [call] = endpoint.calls
    assert (call.body, call.header("new"), call.header("old")) == (b'{"model":"other, longer"}', "1", "2")
    assert call.header("content-length") == "25"


async def test_a_buffered_answer_is_understood_too(front, start_endpoint, serve, picker):
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint)

    def answer(stream: Stream) -> None:
        stream.reply(extproc.HeadersResponse(clear_route_cache=True))
        named = extproc.Mutation([extproc.SetHeader(DESTINATION, at(endpoint).encode())])
        stream.reply(extproc.BodyResponse(named, b"new"))

    picker.answer = answer
    await front.ask("/", "POST", BODY)
    assert endpoint.calls[0].body == b"new"


async def test_the_picker_learns_who_served(front, start_endpoint, serve, picker, eventually):
    """C13: and may say so in the response."""
    endpoint = await start_endpoint()
    endpoint.behave = lambda call: call.answer(b"ok", "201 Created", **{"x-engine": "e"})
    await serve(endpoint)
    picker.answer = lambda stream: stream.pick(at(endpoint))
    picker.response_change = lambda stream: extproc.Mutation(
        [extproc.SetHeader(b"x-conformance-test-served-endpoint", stream.served.encode())]
    )
    response = await front.ask("/", "POST", BODY)
    assert (response.status, response.body) == (201, b"ok")
    [line] = front.gateway.log_lines()
    assert "pool=InferencePool/shop/llama" in line
    assert f"request_bytes={len(BODY)} response_bytes=2" in line
    assert response.header("x-conformance-test-served-endpoint") == at(endpoint)
    [stream] = picker.streams
    assert (stream.response[b":status"], stream.response[b"x-engine"]) == (b"201", b"e")
    await eventually(lambda: stream.ended)


async def test_the_next_endpoint_is_tried_when_one_cannot_be_reached(front, start_endpoint, serve, picker):
    dead, alive = await start_endpoint(b"no"), await start_endpoint(b"ok")
    await dead.stop()
    await serve(dead, alive)
    picker.answer = lambda stream: stream.pick(at(dead), at(alive))
    assert (await front.ask("/", "POST", BODY)).body == b"ok"
    assert picker.streams[0].served == at(alive)


async def test_addresses_outside_the_pool_are_never_asked(front, start_endpoint, serve, picker):
    inside, outside = await start_endpoint(b"ok"), await start_endpoint(b"secret")
    await serve(inside)
    picker.answer = lambda stream: stream.pick(at(outside))
    assert (await front.ask("/", "POST", BODY)).status == 503
    assert not outside.calls


async def test_a_response_of_the_picker_is_passed_on(front, endpoint, serve, picker):
    await serve(endpoint)
    refused = extproc.Mutation([extproc.SetHeader(b"x-reason", b"full")])
    picker.answer = lambda stream: stream.reply(extproc.ImmediateResponse(429, refused, b"too many"))
    response = await front.ask("/", "POST", BODY)
    assert (response.status, response.body, response.header("x-reason")) == (429, b"too many", "full")


@pytest.mark.parametrize("trouble", ["down", "ends", "nonsense", "silent headers"])
async def test_without_the_picker_a_pool_that_fails_open_is_served(
    trouble, front, start_endpoint, serve, picker
):
    """C14."""
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint, fails_open=True)
    await _trouble(trouble, picker)
    response = await front.ask("/v1/completions", "POST", BODY)
    assert (response.status, response.body) == (200, b"ok")
    assert endpoint.calls[0].body == BODY
    name = "headgate_gateway_picker_failures_total"
    assert front.gateway.metric(name, pool="InferencePool/shop/llama", mode="open") == 1


@pytest.mark.parametrize("trouble", ["down", "ends", "nonsense", "silent headers"])
async def test_without_the_picker_a_pool_that_fails_closed_is_not(
    trouble, front, start_endpoint, serve, picker
):
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint)
    await _trouble(trouble, picker)
    assert (await front.ask("/v1/completions", "POST", BODY)).status == 500
    assert not endpoint.calls


async def _trouble(kind: str, picker: Picker) -> None:
    if kind == "down":
        await picker.stop()
    elif kind == "ends":
        picker.answer = lambda stream: stream.call.finish(rpc.status.UNAVAILABLE, "gone")
    elif kind == "nonsense":
        picker.answer = lambda stream: stream.call.send(b"\xff\xff\xff")
    else:
        picker.answer = lambda stream: (
            stream.reply(extproc.HeadersResponse()),
            stream.reply(extproc.BodyResponse(streamed=extproc.StreamedBody(b"", end_of_stream=True))),
        )


@pytest.mark.parametrize("broken", [{"name": "missing"}, {"fault": "a kind that is not supported"}])
async def test_a_picker_that_does_not_exist_gets_500(broken, front, start_endpoint, serve):
    """C3."""
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint, **broken)
    assert (await front.ask("/", "POST", BODY)).status == 500
    assert not endpoint.calls


async def test_a_picker_that_comes_back_is_asked_again(front, start_endpoint, serve, picker):
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint)
    picker.answer = lambda stream: stream.pick(at(endpoint))
    assert (await front.ask("/", "POST", BODY)).status == 200
    await picker.stop()
    assert (await front.ask("/", "POST", BODY)).status == 500
    await picker.start()
    assert (await front.ask("/", "POST", BODY)).status == 200


async def test_a_client_that_leaves_cancels_the_stream(front, endpoint, serve, picker, eventually):
    await serve(endpoint)
    client = await front.connect()
    client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
    await eventually(lambda: picker.streams and picker.streams[0].body)
    client.close()
    await eventually(lambda: picker.streams[0].ended == "cancelled")


async def test_a_picker_that_does_not_see_responses_delays_none(front, start_endpoint, serve, picker):
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint)
    picker.answer = lambda stream: stream.pick(at(endpoint))
    picker.response_change = lambda stream: stream.call.finish() or None
    assert (await front.ask("/", "POST", BODY)).body == b"ok"


async def test_a_picker_that_ends_no_stream_holds_none(
    front, start_endpoint, serve, picker, eventually, monkeypatch
):
    """Streams would add up, and their requests would stay in memory."""
    monkeypatch.setattr(picked, "PARTING_S", 0.05)
    monkeypatch.setattr(Stream, "half_closed", lambda stream: None)
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint)
    picker.answer = lambda stream: stream.pick(at(endpoint))
    for _ in range(3):
        assert (await front.ask("/", "POST", BODY)).body == b"ok"
    await eventually(lambda: [stream.ended for stream in picker.streams] == ["cancelled"] * 3)


async def test_a_picker_that_changes_headers_without_end_is_left(front, endpoint, serve, picker):
    """Each of its messages adds to those before."""
    await serve(endpoint)
    more = extproc.Mutation([extproc.SetHeader(b"x-%d" % i, b"v") for i in range(900)])

    def answer(stream: Stream) -> None:
        stream.reply(extproc.HeadersResponse())
        for _ in range(2):
            piece = extproc.StreamedBody(b"", end_of_stream=False)
            stream.reply(extproc.BodyResponse(more, streamed=piece))

    picker.answer = answer
    assert (await front.ask("/", "POST", BODY)).status == 500


@pytest.mark.parametrize("status", [204, 304])
async def test_nothing_follows_a_status_without_a_body(status, front, endpoint, serve, picker):
    """Clients would read it as the response to their next request."""
    await serve(endpoint)
    picker.answer = lambda stream: stream.reply(
        extproc.ImmediateResponse(status, None, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    )
    client = await front.connect()
    client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
    assert (await client.head()).status == status
    assert await client.is_closed()


async def test_connections_to_former_pickers_are_closed(
    front, service, start_endpoint, serve, picker, eventually
):
    """Once their calls have ended, which they had not when the Service changed."""
    endpoint = await start_endpoint(b"ok")
    await serve(endpoint)
    client = await front.connect()
    client.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n{}")
    await eventually(lambda: picker.streams and picker.streams[0].body)
    pickers = front.gateway.shell.gateways.pickers
    [connection] = pickers._clients.values()
    pickers.keep(())
    picker.streams[0].pick(at(endpoint))
    assert (await client.response()).body == b"ok"
    await eventually(lambda: not connection.calls)
    pickers.sweep()
    await eventually(lambda: not connection.is_usable)
