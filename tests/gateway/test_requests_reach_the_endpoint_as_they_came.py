"""An endpoint gets the client's bytes, without those that were meant only for the gateway."""

import json

ABOUT_THE_CLIENT = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded")
"""Headers that the gateway adds."""


async def test_body_and_target_pass_untouched(gateway, endpoint):
    """Body, path and query arrive byte for byte."""
    body = b'{ "model" : "m",\t"x": 12345678901234567890123, "y": 1.10, "model_": {"model": "n"} }'
    client = await gateway.connect()
    client.post(body, "/v1/completions?a=1&b=%20")
    call = await endpoint.call()
    call.answer()
    assert (call.method, call.target, call.body) == ("POST", "/v1/completions?a=1&b=%20", body)
    assert (await client.response()).status == 200


async def test_headers_of_one_connection_are_not_passed_on(gateway, endpoint):
    """Hop-by-hop headers, those that `connection` names, and reserved ones stay behind; the others arrive."""
    client = await gateway.connect()
    client.post(
        Connection="keep-alive, X-Private, Host",
        X_Private="1",
        TE="trailers",
        Keep_Alive="5",
        Proxy_Authorization="p",
        X_Headgate_Trust="1",
        X_Gateway_Hop="1",
        Authorization="Bearer t",
        Content_Type="application/json",
    )
    call = await endpoint.call()
    call.answer()
    names = [name for name, _ in call.headers]
    assert names == [
        "host",
        *ABOUT_THE_CLIENT,
        "authorization",
        "content-type",
        "x-request-id",
        "content-length",
    ]


async def test_trailers_do_not_become_headers(gateway, endpoint):
    """Fields after a chunked body cannot add headers that nothing has checked."""
    body = b'{"model":"m"}'
    client = await gateway.connect()
    client.send(
        b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
        b"%x\r\n%b\r\n0\r\nauthorization: Bearer evil\r\nx-trail: 1\r\n\r\n" % (len(body), body)
    )
    call = await endpoint.call()
    call.answer()
    assert call.body == body
    assert [name for name, _ in call.headers] == ["host", *ABOUT_THE_CLIENT, "x-request-id", "content-length"]


async def test_request_for_a_proxy_is_sent_in_origin_form(gateway, endpoint):
    """A target with scheme and host becomes a path, since endpoints are not proxies."""
    client = await gateway.connect()
    client.post(None, "http://gateway/v1/completions?q=1")
    call = await endpoint.call()
    call.answer()
    assert call.target == "/v1/completions?q=1"


async def test_http_1_0_request_gets_a_host(gateway, endpoint):
    """What is sent as HTTP/1.1 has a Host, even if the client's HTTP/1.0 needed none."""
    client = await gateway.connect()
    client.send(b'POST /v1/completions HTTP/1.0\r\ncontent-length: 13\r\n\r\n{"model":"m"}')
    call = await endpoint.call()
    call.answer()
    assert call.headers[0] == ("host", "")


async def test_request_id_of_the_client_is_kept(gateway, endpoint):
    """A plain x-request-id goes to the endpoint and comes back; one that could forge log lines does not."""
    client = await gateway.connect()
    for given, kept in (("abc-1", True), ("a b", False), ("x" * 129, False)):
        client.post(X_Request_Id=given)
        call = await endpoint.call()
        call.answer(**{"x-request-id": "the endpoint's own"})
        response = await client.response()
        ids = [value for name, value in response.headers if name == "x-request-id"]
        assert ids == [call.header("x-request-id")]
        assert (ids == [given]) is kept


async def test_model_is_replaced_by_the_pools_name(start_gateway, endpoint):
    """The ModelServer's model goes to the endpoint, and an adapter's name stays (R11)."""
    gateway = await start_gateway(endpoint, model="org/served")
    client = await gateway.connect()
    for asked, sent in (("m", "org/served"), ("adapter", "adapter")):
        client.post(b'{"a": {"model": "m"},  "model":"%b" }' % asked.encode())
        call = await endpoint.call()
        call.answer()
        await client.response()
        assert call.body == b'{"a": {"model": "m"},  "model":"%b" }' % sent.encode()


async def test_body_without_a_prompt_is_forwarded(gateway, endpoint):
    """Only the model is the gateway's business: embeddings and rerank have no prompt (R17)."""
    client = await gateway.connect()
    client.post({"model": "m"}, "/v1/rerank")
    call = await endpoint.call()
    call.answer(json.dumps({"results": []}).encode())
    assert (await client.response()).json == {"results": []}
