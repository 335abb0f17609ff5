"""Clients that ask for progress get it as a stream, followed by the response or the refusal."""

import json

import pytest

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices":[{"text":"a"}]}\n\n'


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def events(response):
    """The comments of a stream, and its events."""
    blocks = response.body.split(b"\n\n")[:-1]
    comments = [block for block in blocks if block.startswith(b":")]
    return comments, [block for block in blocks if not block.startswith(b":")]


@pytest.fixture
async def heard(pool, endpoint):
    """A client that has heard of its progress once, behind a request that runs; the call of that."""
    await pool.ask("runs")
    first = await endpoint.call()
    await pool.wait("before it")
    client = await pool.wait("streams", stream=True, x_headgate_progress="true", x_request_id="mine")
    pool.sweep(1.0)
    response = await client.head()
    assert response.status == 200
    assert response.header("content-type").startswith("text/event-stream")
    assert response.header("x-request-id") == "mine"
    return client, response, first


async def served(pool, first):
    """Lets all before the stream end; its call."""
    first.answer(b"{}")
    assert await pool.served() == "before it"
    return await pool.endpoint.call()


async def test_the_stream_goes_on_with_the_answer(pool, heard):
    """Behind comments that tell the position, no more often than every few seconds."""
    client, response, first = heard
    pool.sweep(2.0)
    pool.sweep(6.1)
    call = await served(pool, first)
    assert call.json["prompt"] == "streams"
    call.write(STREAM + chunk(EVENT) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    comments, told = events(await client.read_body(response))
    assert [comment[:20] for comment in comments] == [b": queued, position 2"] * 2
    assert told == [EVENT.strip(), b"data: [DONE]"]
    client.post()
    (await pool.endpoint.call()).answer(b"{}")
    assert (await client.response()).status == 200


async def test_an_endpoint_that_refuses(pool, heard):
    """Its error is the last event; the log has its status."""
    client, response, first = heard
    call = await served(pool, first)
    call.answer(b'{"error": {"message": "too long"}}', "400 Bad Request")
    _, (told,) = events(await client.read_body(response))
    assert json.loads(told.removeprefix(b"data: ")) == {"error": {"message": "too long"}}
    await pool.gateway.idle()
    line = next(line for line in pool.gateway.log_lines() if "id=mine" in line)
    assert " 200 outcome=served" in line


async def test_a_queue_that_refuses(pool, heard, eventually):
    """As an event of the form that the SDKs raise."""
    client, response, first = heard
    pool.queue._flow.close(0.0)
    pool.queue.wake()
    _, (told,) = events(await client.read_body(response))
    error = json.loads(told.removeprefix(b"data: "))["error"]
    assert error["code"] == "shutting_down"
    line = next(line for line in pool.gateway.log_lines() if "id=mine" in line)
    assert " 200 outcome=shutting_down" in line
    assert " origin=gateway" in line
    first.answer(b"{}")


@pytest.mark.parametrize("form", ["text", "json"])
async def test_all_bytes_of_such_a_stream_are_logged(start_pool, endpoint, form):
    """Comments, and the event with which the queue ended it, as they were framed."""
    pool = await start_pool(logging_access_log=form)
    await pool.ask("runs")
    await endpoint.call()
    asks = {"x_headgate_progress": "true", "x_request_id": "mine", "connection": "close"}
    client = await pool.wait("streams", stream=True, **asks)
    pool.sweep(1.0)
    pool.sweep(6.1)
    pool.queue.close(pool.gateway.shell.now())
    wire = await client.rest()
    size = len(wire.partition(b"\r\n\r\n")[2])
    assert wire.count(b": queued") == 2
    line = next(line for line in pool.gateway.log_lines() if "mine" in line)
    assert (f" response_bytes={size} " if form == "text" else f'"response_bytes":{size},') in line


async def test_an_endpoint_that_breaks(pool, heard):
    """After some of its answer; the stream ends with the event that says so."""
    client, response, first = heard
    call = await served(pool, first)
    call.write(STREAM + chunk(EVENT))
    call.close()
    _, (text, told) = events(await client.read_body(response))
    assert text == EVENT.strip()
    assert json.loads(told.removeprefix(b"data: "))["error"]["code"] == "upstream_lost"


async def test_nobody_answers(pool, heard):
    """All attempts fail before an answer: the stream has an error, and no second head."""
    client, response, first = heard
    call = await served(pool, first)
    await pool.endpoint.stop()
    call.reset()
    _, (told,) = events(await client.read_body(response))
    assert json.loads(told.removeprefix(b"data: "))["error"]["code"] in (
        "endpoint_unreachable",
        "upstream_failed",
    )


async def test_a_client_that_leaves_amid_its_progress(pool, heard, eventually):
    """It is never sent."""
    client, _, first = heard
    client.close()
    await eventually(lambda: pool.queue.held == 1)
    first.answer(b"{}")
    assert await pool.served() == "before it"
    await pool.gateway.idle()
    assert len(pool.endpoint.calls) == 2


async def test_who_does_not_wait_long_hears_nothing(pool, endpoint):
    """And has its answer with the head that the endpoint gives it."""
    await pool.ask()
    first = await endpoint.call()
    client = await pool.wait("streams", stream=True, x_headgate_progress="true")
    pool.sweep(0.0)
    first.answer(b"{}")
    (await endpoint.call()).answer(b"no", "418 Teapot")
    assert (await client.response()).status == 418


async def test_who_does_not_ask_hears_nothing(pool, endpoint):
    """However long it waits."""
    await pool.ask()
    first = await endpoint.call()
    client = await pool.wait("streams", stream=True)
    pool.sweep(30.0)
    first.answer(b"{}")
    (await endpoint.call()).answer(b"no", "418 Teapot")
    assert (await client.response()).status == 418


async def test_a_pool_without_endpoints(start_pool, endpoint):
    """The comment says what is waited for."""
    pool = await start_pool(queue_no_endpoint_wait_s=60.0)
    pool.gateway.serve([])
    client = await pool.wait("streams", stream=True, x_headgate_progress="1")
    pool.sweep(1.0)
    response = await client.head()
    pool.gateway.serve([endpoint])
    (await endpoint.call()).write(STREAM + chunk(EVENT) + b"0\r\n\r\n")
    (comment,), _ = events(await client.read_body(response))
    assert comment == b": queued, no endpoint is ready yet"
