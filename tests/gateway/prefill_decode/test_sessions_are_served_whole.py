"""WebSockets and long forms to a pool with separate prefill and decode go to a decoding endpoint alone."""

OPENING = (
    b"GET /v1/realtime?model=m HTTP/1.1\r\nhost: g\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
CLOSE = b"\x88\x02\x03\xe8"
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"


async def test_a_session(split):
    """It has no prompt that could be prefilled elsewhere."""
    fleet = await split()
    client = await fleet.gateway.connect()
    client.send(OPENING)
    call = await fleet.decode[0].call()
    assert (call.method, call.target) == ("GET", "/v1/realtime?model=m")
    call.write(SWITCHING + b"\x81\x01a")
    assert (await client.head()).status == 101
    assert await client.reader.readexactly(3) == b"\x81\x01a"
    assert fleet.decisions("form") == 1
    assert not fleet.prefill[0].calls
    call.write(CLOSE)
    call.close()
    assert await client.reader.readexactly(len(CLOSE)) == CLOSE
    assert await client.is_closed()


async def test_a_long_form(split):
    """Which is sent while it comes."""
    fleet = await split()
    part = b'--X\r\ncontent-disposition: form-data; name="%b"\r\n\r\n%b\r\n'
    body = part % (b"model", b"m") + part % (b"prompt", b"a" * 600_000) + b"--X--\r\n"
    fleet.decode[0].behave = lambda call: call.answer(b"{}")
    kind = {"content-type": "multipart/form-data; boundary=X"}
    assert (await fleet.gateway.ask(body, "/v1/audio/transcriptions", **kind)).status == 200
    assert fleet.decode[0].calls[0].body == body
    assert not fleet.prefill[0].calls
