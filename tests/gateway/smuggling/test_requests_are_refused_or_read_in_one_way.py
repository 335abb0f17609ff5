"""Whatever a client sends, an endpoint gets nothing, or unambiguous messages one after the other."""

CORPUS = "requests.txt"

NEXT = b'POST /v1/embeddings HTTP/1.1\r\nhost: next\r\ncontent-length: 23\r\n\r\n{"model":"m","next": 1}'


def _message(line: bytes, host: bytes, headers: bytes, body: bytes) -> bytes:
    """What an endpoint gets, byte for byte."""
    about_host = (b"x-forwarded-host: %b\r\n" % host, b';host="%b"' % host) if host else (b"", b"")
    return (
        b"%b HTTP/1.1\r\nhost: %b\r\nx-forwarded-for: 127.0.0.1\r\nx-forwarded-proto: http\r\n%b"
        b"forwarded: for=127.0.0.1%b;proto=http\r\n%bx-request-id: id\r\ncontent-length: %d\r\n\r\n%b"
    ) % (line, host, *about_host, headers, len(body), body)


async def test_case(case, start_gateway, recording_endpoint, caplog):
    """The client's view and the endpoint's agree with the verdict, and the next request is not poisoned."""
    gateway = await start_gateway(recording_endpoint)
    gateway.shell.services.identities.request_id = lambda: b"id"
    client = await gateway.connect()
    client.send(case.sent + NEXT)
    next_message = _message(b"POST /v1/embeddings", b"next", b"", b'{"model":"m","next": 1}')
    expected = b""
    if case.verdict.startswith("one message"):
        told = {"line": b"POST /v1/completions", "host": b"g", "headers": b"", "body": b'{"model":"m"}'}
        expected = _message(**(told | case.told))
        assert (await client.response()).body == b"answer 1"
    elif case.verdict.startswith("answered"):
        response = await client.response()
        assert response.status == int(case.verdict.split()[1])
    else:
        response = await client.response()
        status, code = case.verdict.split()
        assert (response.status, response.json["error"]["code"]) == (int(status), code)
        assert response.header("connection") == "close"
        assert gateway.metric("headgate_gateway_rejected_total", reason=code) == 1
        assert await client.is_closed()
        assert recording_endpoint.connections == []
        return
    if case.verdict.endswith("the end"):
        assert await client.is_closed()
    else:
        expected += next_message
        response = await client.response()
        assert response.body == b"answer %d" % recording_endpoint.requests
    assert recording_endpoint.connections == [expected]
    assert "could not be handled" not in caplog.text
