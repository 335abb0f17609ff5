"""Whatever an endpoint sends, the client gets one unambiguous response, or an error."""

import h11

CORPUS = "answers.txt"

NEXT = b'POST /v1/embeddings HTTP/1.1\r\nhost: g\r\ncontent-length: 13\r\n\r\n{"model":"m"}'
ABOUT_THE_MESSAGE = (b"content-length", b"transfer-encoding", b"connection", b"x-request-id")


def _read(received: bytes, *, ended: bool) -> list[h11.Event]:
    """What h11 takes the bytes for; fails on what it refuses."""
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="POST", target="/", headers=[("host", "g"), ("content-length", "0")]))
    parser.send(h11.EndOfMessage())
    parser.receive_data(received)
    if ended:
        parser.receive_data(b"")
    events = []
    while (event := parser.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
        events.append(event)
        if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            break
    return events


async def test_case(case, start_gateway, recording_endpoint, caplog):
    """The client's view agrees with the verdict, and the next request is served as if nothing had been."""
    recording_endpoint.script = case.sent
    recording_endpoint.closes_behind_script = "closes" in case.told
    gateway = await start_gateway(recording_endpoint, settings={"endpoints_retries": 0})
    client = await gateway.connect()
    client.post()
    verdict = case.verdict
    if verdict == "502":
        response = await client.response()
        code = response.json["error"]["code"]
        assert (response.status, code) in ((502, "upstream_invalid"), (502, "upstream_failed"))
        assert "evil" not in str(response)
    elif verdict == "cut off":
        received = await client.rest()
        assert b"evil" not in received
        assert received == b"" or b"hello" in received
    elif verdict == "passed":
        head = await client.reader.readuntil(b"\r\n\r\n")
        _check(case, head + await client.reader.readexactly(_length(case, head)), ended=False)
    else:
        _check(case, await client.rest(), ended=True)
    if verdict not in ("502", "passed"):
        client = await gateway.connect()
    client.send(NEXT)
    assert (await client.response()).body == b"answer 2"
    assert len(recording_endpoint.connections) == (1 if verdict == "passed" and not _ends(case) else 2)
    assert "could not be handled" not in caplog.text


def _ends(case) -> bool:
    """Whether the endpoint's connection is not used again: HTTP/1.0 ends with its answer."""
    return case.sent.startswith(b"HTTP/1.0")


def _length(case, head: bytes) -> int:
    return len(case.told.get("raw", b"5\r\nhello\r\n0\r\n\r\n" if b"chunked" in head else b"hello")) * (
        case.told.get("body") != b""
    )


def _check(case, received: bytes, *, ended: bool) -> None:
    assert b"evil" not in received
    head, *data, end = _read(received, ended=ended)
    assert isinstance(end, h11.EndOfMessage)
    assert head.status_code == int(case.told.get("status", b"200"))
    assert b"".join(part.data for part in data) == case.told.get("body", b"hello")
    rest = [b"%b: %b\r\n" % header for header in head.headers if header[0] not in ABOUT_THE_MESSAGE]
    assert b"".join(rest) == case.told.get("headers", b"")
    assert (b"content-length" in dict(head.headers)) <= (head.status_code != 204)
