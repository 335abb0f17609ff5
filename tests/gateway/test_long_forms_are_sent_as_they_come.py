"""A long multipart form that names its model before its file is sent to the endpoint while it arrives: the
memory for it is constant, and no byte of it waits for the last one."""

import asyncio
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway import in_flight
from headgate.gateway.upload_exchange import HELD_BYTES
from headgate.requests.bodies import forms
from headgate.requests.bodies.form_stream import FormStream
from headgate.requests.bodies.large import LARGE_BYTES
from headgate.requests.refusal import Refusal

PATH = "/v1/audio/transcriptions"
KIND = b"multipart/form-data; boundary=X"
FILE = b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
END = b"\r\n--X--\r\n"
READ_BYTES = 256 * 1024
"""The most that is read at once."""
PATIENCE_S = 30.0


def part(name, value):
    return b'--X\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (name, value)


MODEL = part(b"model", b"m")


def head(length, more=b""):
    return b"POST %b HTTP/1.1\r\nhost: g\r\ncontent-type: %b\r\ncontent-length: %d\r\n%b\r\n" % (
        PATH.encode(),
        KIND,
        length,
        more,
    )


class SlowEndpoint:
    """Reads when the test wants it to."""

    def __init__(self, port):
        self.port = port
        self.connections = asyncio.Queue()

    async def next(self):
        async with asyncio.timeout(PATIENCE_S):
            return await self.connections.get()


@pytest.fixture
async def slow(held_port):
    endpoint = SlowEndpoint(held_port())
    writers = []

    async def connected(reader, writer):
        writers.append(writer)
        await endpoint.connections.put((reader, writer))

    server = await asyncio.start_server(
        connected, "127.0.0.1", endpoint.port, limit=1 << 16, reuse_address=True
    )
    yield endpoint
    server.close()
    for writer in writers:
        writer.transport.abort()


async def read_head(reader):
    return (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()


async def test_memory_stays_flat_for_100_mb(start_gateway, slow, eventually):
    """The bytes that are held are counted while an endpoint that reads nothing at first gets 100 MB. The
    client can send no more than a constant until it reads."""
    limits = {"clients_max_body_bytes": 200_000_000, "clients_max_bodies_bytes": 400_000_000}
    gateway = await start_gateway(slow, settings=limits)
    bodies = gateway.shell.services.bodies
    size = 100_000_000
    client = await gateway.connect()
    begun = MODEL + FILE
    client.send(head(len(begun) + size + len(END)) + begun)
    piece = bytes(range(256)) * 1024
    most = sent = 0

    async def upload():
        nonlocal sent, most
        while sent < size:
            now = piece[: size - sent]
            client.send(now)
            await client.writer.drain()
            sent += len(now)
            most = max(most, bodies.held)
        client.send(END)

    uploading = asyncio.create_task(upload())
    reader, writer = await slow.next()
    assert f"content-length: {len(begun) + size + len(END)}" in await read_head(reader)
    exchange = next(iter(gateway.shell.clients.all)).exchange
    await eventually(lambda: exchange.is_full)
    await asyncio.sleep(0.2)
    assert sent < size / 2
    came = bytearray()
    total = 0
    async with asyncio.timeout(PATIENCE_S * 4):
        while total < len(begun) + size + len(END):
            data = await reader.read(1 << 20)
            came += data
            total += len(data)
            del came[:-64]
            most = max(most, bodies.held)
    await uploading
    assert came.endswith(END)
    assert most <= LARGE_BYTES + HELD_BYTES + 2 * READ_BYTES
    assert not bodies.held
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    assert (await client.response()).body == b"{}"
    client.post(b'{"model":"m"}')  # the connection goes on
    reader, writer = (reader, writer) if not slow.connections.qsize() else await slow.next()
    await read_head(reader)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    assert (await client.response()).status == 200


async def test_the_endpoint_gets_the_file_while_it_comes(start_gateway, slow):
    """And its answer reaches the client before the upload has ended, in the events in which it is written.
    The connection is closed then, as the rest of the request is of no use."""
    gateway = await start_gateway(slow, model="served")
    client = await gateway.connect()
    begun = MODEL + part(b"stream", b"true") + FILE
    client.send(head(len(begun) + 2_000_000 + len(END)) + begun + b"a" * 1000)
    reader, writer = await slow.next()
    told = await read_head(reader)
    renamed = begun.replace(b"\r\n\r\nm\r\n", b"\r\n\r\nserved\r\n")
    assert f"content-length: {len(renamed) + 2_000_000 + len(END)}" in told
    assert await reader.readexactly(len(renamed) + 1000) == renamed + b"a" * 1000
    client.send(b"b" * 500)
    assert await reader.readexactly(500) == b"b" * 500
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    writer.write(b"a\r\ndata: {}\n\n\r\n")
    response = await client.head()
    assert response.status == 200
    assert response.header("connection") == "close"
    writer.write(b"0\r\n\r\n")
    await client.read_body(response)
    assert response.body == b"data: {}\n\n"
    assert await client.is_closed()


@pytest.mark.parametrize(
    "rest",
    [
        b"\r\n" + part(b"model", b"other") + b"--X--\r\n",
        b"\r\n--X\r\nno head",
        b"\r\n--X\r\n" + b"x: y" * 1100,
        b"".join([b"\r\n", *[part(b"a", b"")] * 1000, b"--X--\r\n"]),
        b"\r\n--X\r\nContent-Disposition: form-data; name=_charset_\r\n\r\nutf-16\r\n--X--\r\n",
    ],
    ids=["two models", "cut off", "a long head", "many parts", "an encoding"],
)
async def test_what_turns_out_to_be_ambiguous_is_never_complete(start_gateway, slow, rest):
    """The endpoint loses its connection before it has the whole, and the client is told why."""
    gateway = await start_gateway(slow)
    client = await gateway.connect()
    begun = MODEL + FILE
    size = len(begun) + 1_000_000 + len(rest)
    client.send(head(size) + begun + b"a" * 1000)
    reader, _ = await slow.next()
    await read_head(reader)
    client.send(b"a" * 999_000 + rest)
    got = 0
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            got += len(data)
    assert got < size
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (400, "invalid_form")
    assert gateway.metric("headgate_gateway_requests_total", outcome="invalid_form") == 1
    assert await client.is_closed()


async def test_a_model_behind_the_file(start_gateway, start_endpoint):
    """The form is held until it is complete, as any other body."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint)
    body = FILE + b"a" * 600_000 + b"\r\n" + MODEL + b"--X--\r\n"
    assert (await gateway.ask(body, PATH, **{"content-type": KIND.decode()})).status == 200
    assert endpoint.calls[0].body == body


async def test_a_form_without_a_model(start_gateway, endpoint):
    """Is refused once it is complete."""
    gateway = await start_gateway(endpoint)
    body = FILE + b"a" * 600_000 + END
    response = await gateway.ask(body, PATH, **{"content-type": KIND.decode()})
    assert (response.status, response.json["error"]["code"]) == (400, "model_missing")


async def test_an_unknown_model_is_told_at_once(start_gateway, endpoint):
    """The client need not send the file first."""
    gateway = await start_gateway(endpoint)
    client = await gateway.connect()
    client.send(head(2_000_000) + part(b"model", b"unknown") + FILE)
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (404, "model_not_found")
    assert await client.is_closed()


async def test_expect_continue(start_gateway, slow):
    """The client waits for leave to send the file."""
    gateway = await start_gateway(slow)
    client = await gateway.connect()
    begun = MODEL + FILE
    client.send(head(len(begun) + 500_000 + len(END), b"expect: 100-continue\r\n"))
    assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(begun + b"a" * 500_000 + END)
    reader, writer = await slow.next()
    assert "expect" not in await read_head(reader)
    assert await reader.readexactly(len(begun) + 500_000 + len(END)) == begun + b"a" * 500_000 + END
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    assert (await client.response()).status == 200


@pytest.mark.parametrize(("size", "is_retried"), [(HELD_BYTES - 1000, True), (HELD_BYTES * 6, False)])
async def test_retries_while_everything_is_held(
    start_gateway, slow, start_endpoint, size, is_retried, eventually
):
    """An endpoint fails after it got this much: another one gets all of it, or nobody."""
    working = await start_endpoint(b"{}")
    gateway = await start_gateway(slow, working)
    client = await gateway.connect()
    begun = MODEL + FILE
    length = len(begun) + HELD_BYTES * 8 + len(END)
    client.send(head(length) + begun + b"a" * size)
    reader, writer = await slow.next()
    await read_head(reader)
    await reader.readexactly(len(begun) + size)
    writer.transport.abort()
    if is_retried:
        await eventually(lambda: working.connections)
        client.send(b"a" * (HELD_BYTES * 8 - size) + END)
        assert (await client.response()).status == 200
        assert working.calls[0].body == begun + b"a" * HELD_BYTES * 8 + END
    else:
        response = await client.response()
        assert (response.status, response.json["error"]["code"]) == (502, "upstream_failed")
        assert not working.calls


async def test_what_comes_before_a_retry_is_kept(start_gateway, slow, start_endpoint, eventually):
    """While nobody has the request, the client waits, and nothing is lost."""
    working = await start_endpoint(b"{}")
    gateway = await start_gateway(slow, working, retry_interval_s=60)
    timers = gateway.timers
    client = await gateway.connect()
    begun = MODEL + FILE
    client.send(head(len(begun) + HELD_BYTES * 8 + len(END)) + begun + b"a" * 100_000)
    reader, writer = await slow.next()
    await read_head(reader)
    await reader.readexactly(len(begun) + 100_000)
    writer.transport.abort()
    exchange = next(iter(gateway.shell.clients.all)).exchange
    await eventually(lambda: exchange.life.phase == "waiting to retry")
    client.send(b"b" * (HELD_BYTES * 8 - 100_000) + END)
    await eventually(lambda: exchange.is_full)
    timers.end(60)
    assert (await client.response()).status == 200
    assert working.calls[0].body == begun + b"a" * 100_000 + b"b" * (HELD_BYTES * 8 - 100_000) + END


async def test_a_client_that_stops_sending(start_gateway, slow, eventually):
    """Is told so after the time that any body has; the endpoint is not to blame."""
    gateway = await start_gateway(slow)
    client = await gateway.connect()
    client.send(head(2_000_000) + MODEL + FILE)
    reader, _ = await slow.next()
    await read_head(reader)
    (connection,) = gateway.shell.clients.all
    for _ in range(40):
        gateway.move(1.0)
        connection.sweep(gateway.shell.services.now())
    gateway.move(600)
    connection.sweep(gateway.shell.services.now())
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (408, "request_timeout")
    (load,) = next(iter(gateway.shell.plane.pools.values())).loads
    assert not load.failures


async def test_operators_see_what_has_still_to_come(start_gateway, slow, eventually):
    """Of a request that was sent, and for which nobody but its client is waited for."""
    gateway = await start_gateway(slow)
    client = await gateway.connect()
    begun = MODEL + FILE
    client.send(head(2_000_000) + begun + b"a" * 1000)
    reader, _ = await slow.next()
    await read_head(reader)
    await reader.readexactly(len(begun) + 1000)
    [shown] = in_flight.requests(gateway.shell)["requests"]
    assert (shown["phase"], shown["bytes_to_come"]) == ("sent", 2_000_000 - len(begun) - 1000)


async def test_an_endpoint_that_reads_slowly_is_not_silent(start_gateway, slow, eventually):
    """It has the time for a response from when it has everything, however long that takes."""
    gateway = await start_gateway(slow)
    gateway.move(0)
    client = await gateway.connect()
    begun = MODEL + FILE
    size = HELD_BYTES * 112
    client.send(head(len(begun) + size + len(END)) + begun + b"a" * size + END)
    reader, writer = await slow.next()
    await read_head(reader)
    (connection,) = gateway.shell.clients.all
    exchange = connection.exchange
    account, got = exchange.life.account, 0
    for _ in range(4):
        await eventually(lambda: exchange.is_full)
        heard_at = account.heard_at
        gateway.move(200)
        connection.sweep(gateway.shell.services.now())
        while account.heard_at == heard_at:  # it reads until there is room for more
            got += len(await reader.read(1 << 16))
            await asyncio.sleep(0)
    assert got < size
    (load,) = next(iter(gateway.shell.plane.pools.values())).loads
    assert not load.failures
    await reader.readexactly(len(begun) + size + len(END) - got)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    assert (await client.response()).status == 200


async def test_an_endpoint_that_stops_reading_has_the_time_of_its_pool(start_gateway, slow):
    """Not that of all endpoints, which is longer."""
    gateway = await start_gateway(slow, timeout_s=0.3)
    client = await gateway.connect()
    client.send(head(HELD_BYTES * 64) + MODEL + FILE + b"a" * HELD_BYTES * 62)
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (504, "upstream_timeout")
    await gateway.idle()


async def test_a_client_that_leaves(start_gateway, slow):
    """The endpoint is left, too."""
    gateway = await start_gateway(slow)
    client = await gateway.connect()
    client.send(head(2_000_000) + MODEL + FILE + b"a" * 1000)
    reader, _ = await slow.next()
    await read_head(reader)
    client.close()
    with contextlib.suppress(ConnectionError):
        while await reader.read(1 << 16):
            pass
    await gateway.idle()
    assert gateway.metric("headgate_gateway_requests_total", outcome="client_gone") == 1


async def test_parts_of_any_content(start_gateway, start_endpoint):
    """A part that is itself a form, and one that holds what looks like a boundary, are content. Bytes behind
    the last boundary stay, too."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint)
    inner = b"--Y\r\ncontent-disposition: form-data; name=model\r\n\r\nother\r\n--Y--\r\n\r\n-X"
    kind = b"Content-Type: multipart/mixed; boundary=Y\r\n\r\n"
    body = MODEL + b"--X\r\nContent-Disposition: form-data; name=parts\r\n" + kind + inner
    body += b"\r\n" + FILE + b"a" * 600_000 + b"\r\n--X--\r\nan epilogue"
    assert (await gateway.ask(body, PATH, **{"content-type": KIND.decode()})).status == 200
    assert endpoint.calls[0].body == body


async def test_requests_on_the_same_connection(start_gateway, start_endpoint):
    """A request may follow at once; a form behind another request waits, and is then served."""
    endpoint = await start_endpoint(behave=lambda call: call.answer(b"%d" % len(call.body)))
    gateway = await start_gateway(endpoint)
    client = await gateway.connect()
    body = MODEL + FILE + b"a" * 600_000 + END
    small = b'{"model":"m"}'
    for sent in (body, small, body, body, small):
        kind = {"content-type": KIND.decode()} if sent is body else {}
        client.post(sent, PATH if sent is body else "/v1/chat/completions", **kind)
    told = [int((await client.response()).body) for _ in range(5)]
    assert told == [len(body), len(small), len(body), len(body), len(small)]
    assert not gateway.shell.services.bodies.held


@pytest.mark.every_loop
@pytest.mark.parametrize("ends", ["client", "endpoint", "served", "refused", "answered early"])
async def test_its_end_frees_it(start_gateway, slow, garbage, eventually, ends):
    """Nothing is left for the collector, and no byte is counted as held."""
    gateway = await start_gateway(slow)
    rest = b"a" * 500_000 + END
    for _ in range(3):
        client = await gateway.connect()
        begun = MODEL + FILE
        client.send(head(len(begun) + len(rest)) + begun + b"a" * 1000)
        reader, writer = await slow.next()
        await read_head(reader)
        if ends == "client":
            client.close()
        elif ends == "endpoint":
            client.send(rest[1000:-8])
            await reader.readexactly(len(begun) + len(rest) - 8)
            writer.transport.abort()
        elif ends == "refused":
            client.send(b"\r\n" + MODEL)
        elif ends == "served":
            client.send(rest[1000:])
            await reader.readexactly(len(begun) + len(rest))
        if ends in ("served", "answered early"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
        if ends != "client":
            await client.response()
            client.close()
        writer.close()
        await eventually(lambda: not gateway.shell.clients.all)
        await gateway.idle()
        await asyncio.sleep(0.002)
        assert not gateway.shell.services.bodies.held
        del client, reader, writer
    assert not garbage()


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
async def test_curl_sends_a_file(start_gateway, start_endpoint, tmp_path, version):
    """Over both versions of HTTP, as the fields are given."""
    endpoint = await start_endpoint(b"{}")
    gateway = await start_gateway(endpoint)
    file = tmp_path / "speech.wav"
    file.write_bytes(bytes(range(256)) * 8000)
    url = f"http://127.0.0.1:{gateway.port}{PATH}"
    made = await asyncio.create_subprocess_exec(
        *("curl", "-sS", version, url, "-F", "model=m", "-F", f"file=@{file}", "-w", "%{http_code}"),
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await made.communicate()
    assert told == b"{}200"
    (call,) = endpoint.calls
    assert file.read_bytes() in call.body
    assert not gateway.shell.services.bodies.held


PIECES = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [
            b"\r\n",
            b"--X",
            b"--X\r\n",
            b"\r\n--X",
            b"\r\n--X--",
            MODEL,
            part(b"stream", b"true"),
            FILE + b"a" * 2000 + b"\r\n",
            part(b"model", b"x" * 1025),
            b"--X--\r\n",
        ]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=9), st.lists(st.integers(1, 3000), min_size=1, max_size=30), st.booleans())
def test_any_cut_gives_the_same_form(pieces, sizes, is_form):
    """Read in pieces of any size, a form is what it is as a whole; or both are refused."""
    body = b"".join(pieces)
    if is_form:
        body = b"--X\r\n" + body.replace(b"--X", b"--Y") + MODEL.removeprefix(b"--X\r\n") + b"--X--"
    whole = forms.read([(b"content-type", KIND)], body)
    stream = FormStream(b"X")
    refusal, at, place = None, 0, 0
    while at < len(body) and refusal is None:
        size = sizes[place % len(sizes)]
        refusal = stream.feed(body[at : at + size])
        at, place = at + size, place + 1
    refusal = refusal or stream.finish()
    if isinstance(whole, Refusal):
        assert refusal is not None
        assert refusal.status == whole.status
    else:
        assert refusal is None
        form = stream.form
        assert form is not None
        assert (form.model, form.start, form.end) == (whole.model, whole.start, whole.end)
        assert stream.is_stream == whole.stream


@pytest.mark.parametrize("size", [1, 7])
def test_a_form_in_single_bytes(size):
    """Every boundary, head and value is cut."""
    body = part(b"language", b"en") + MODEL + part(b"stream", b"true") + FILE + b"--X\r\n--" * 50 + END
    stream = FormStream(b"X")
    for at in range(0, len(body), size):
        assert stream.feed(body[at : at + size]) is None
    assert stream.finish() is None
    assert stream.form is not None
    assert (stream.form.model, stream.is_stream, stream.is_complete) == ("m", True, True)
