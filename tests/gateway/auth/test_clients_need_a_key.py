"""With a file of keys, a request is served only with one of them."""

import logging
import re
import time

import pytest

from headgate.kubeschema import timestamps


async def test_a_key_opens_and_nothing_else_does(start_guarded, keys_file):
    """As a bearer token, as Anthropic's header, and as Azure's."""
    key = keys_file.make()
    gateway = await start_guarded()
    for header in (
        {"authorization": f"Bearer {key}"},
        {"authorization": f"bearer  {key}"},
        {"x_api_key": key},
        {"api_key": key},
    ):
        assert (await gateway.ask(**header)).status == 200
    for header in (
        {},
        {"authorization": f"Basic {key}"},
        {"authorization": key},
        {"authorization": f"Bearer {key}x"},
        {"x_api_key": key[:-1]},
        {"x_api_key": ""},
        {"authorization": "Bearer"},
    ):
        assert (await gateway.ask(**header)).status == 401, header
    assert len(gateway.endpoint.calls) == 4
    assert gateway.metric("headgate_gateway_authentication_failures_total") == 7


@pytest.mark.parametrize("offered", [b"h2c", b"websocket"])
async def test_offers_of_other_protocols_change_nothing(start_guarded, keys_file, offered):
    """Java's own client offers h2c with each first request."""
    key = keys_file.make().encode()
    gateway = await start_guarded()
    body = b'{"model":"m"}'
    offer = (
        b"POST /v1/completions HTTP/1.1\r\nhost: g\r\nconnection: upgrade, http2-settings\r\n"
        b"upgrade: %b\r\nhttp2-settings: AAMAAABk\r\n%bcontent-length: 13\r\n\r\n" + body
    )
    client = await gateway.connect()
    for _ in range(2):
        client.send(offer % (offered, b"authorization: Bearer %b\r\n" % key))
        assert (await client.response()).status == 200
    client.send(offer % (offered, b"") + offer % (offered, b"x-api-key: %b\r\n" % key))
    assert (await client.response()).status == 401
    assert len(gateway.endpoint.calls) == 2
    assert all(call.header("authorization") is None for call in gateway.endpoint.calls)
    assert gateway.metric("headgate_gateway_authentication_failures_total") == 1


async def test_it_never_reaches_endpoints_or_logs(start_guarded, keys_file):
    """In whatever header it is, also twice; other credentials are the endpoint's."""
    key = keys_file.make()
    gateway = await start_guarded()
    assert (await gateway.ask(authorization=f"Bearer {key}", x_api_key=key)).status == 200
    assert (await gateway.ask(authorization="Bearer of-the-engine", x_api_key=key)).status == 200
    first, second = gateway.endpoint.calls
    assert first.header("authorization") is None
    assert second.header("authorization") == "Bearer of-the-engine"
    assert all(call.header("x-api-key") is None for call in (first, second))
    assert key not in "\n".join(gateway.log_lines())


async def test_a_setting_forwards_it(start_guarded, keys_file):
    """For endpoints that know the same keys."""
    key = keys_file.make()
    gateway = await start_guarded({"auth_forward_credentials": True})
    assert (await gateway.ask(authorization=f"Bearer {key}")).status == 200
    assert gateway.endpoint.calls[0].header("authorization") == f"Bearer {key}"


async def test_a_key_without_its_scheme_is_none(start_guarded, keys_file):
    """The response says how to send it, rather than that it was revoked."""
    gateway = await start_guarded()
    key = keys_file.make()
    for header in ({"authorization": key}, {"authorization": f"Basic {key}"}, {"x_api_key": ""}):
        error = (await gateway.ask(**header)).json["error"]
        assert error["code"] == "missing_credentials", header
        assert "`authorization: Bearer KEY`" in error["message"]


async def test_rejections_have_the_form_of_the_api(start_guarded):
    """OpenAI's; Anthropic's at its path, or with its header."""
    gateway = await start_guarded()
    openais = await gateway.ask()
    assert openais.json["error"]["code"] == "missing_credentials"
    assert openais.header("www-authenticate") == 'Bearer realm="headgate"'
    wrong = await gateway.ask(x_api_key="hg_no")
    assert wrong.json["error"]["code"] == "invalid_api_key"
    assert wrong.header("www-authenticate").endswith('error="invalid_token"')
    for asked in ({"path": "/v1/messages"}, {"anthropic_version": "2023-06-01"}):
        anthropics = await gateway.ask(None, **asked)
        assert anthropics.json["type"] == "error"
        assert anthropics.json["error"]["type"] == "authentication_error"


async def test_the_body_of_a_stranger_is_not_read(start_guarded):
    """The response comes before the body, and without `100 Continue`."""
    gateway = await start_guarded()
    client = await gateway.connect()
    client.send(
        b"POST /v1/completions HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 1000000\r\n\r\n"
    )
    assert (await client.response()).status == 401
    assert not gateway.shell.services.bodies.held


async def test_health_is_open(start_guarded):
    """Load balancers have no keys; everything else needs one, whatever the method."""
    gateway = await start_guarded()
    for path in ("/healthz", "/readyz", "/health"):
        assert await _status(gateway, "GET", path) == 200
        assert await _status(gateway, "POST", path) == 401
    for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        for path in ("/", "/v1/models", "/v1/models/m", "/metrics", "/healthz/", "/healthz?x", "//healthz"):
            assert await _status(gateway, method, path) == 401, (method, path)


async def test_preflights_are_open(start_guarded):
    """Browsers send no credentials with them."""
    gateway = await start_guarded({"cors_origins": ("https://app.example",)})
    client = await gateway.connect()
    client.send(
        b"OPTIONS /v1/completions HTTP/1.1\r\nhost: g\r\norigin: https://app.example\r\n"
        b"access-control-request-method: POST\r\n\r\n"
    )
    response = await client.response()
    assert (response.status, response.header("access-control-allow-origin")) == (204, "https://app.example")
    assert await _status(gateway, "OPTIONS", "/v1/completions") == 401


async def test_a_revoked_key_is_rejected_on_open_connections(start_guarded, keys_file):
    """Though its head was read before."""
    key, kept = keys_file.make(), keys_file.make()
    gateway = await start_guarded()
    clients = [(await gateway.connect(), each) for each in (key, kept)]
    for client, each in clients * 2:
        client.post(authorization=f"Bearer {each}")
        assert (await client.response()).status == 200
    keys_file.revoke(key)
    gateway.shell.services.credentials.look()
    statuses = []
    for client, each in clients:
        client.post(authorization=f"Bearer {each}")
        statuses.append((await client.response()).status)
    assert statuses == [401, 200]


async def test_an_expired_key_is_rejected_on_open_connections(start_guarded, keys_file, monkeypatch):
    """At its time, without anything being read anew."""
    now = time.time()
    key = keys_file.make(expires=timestamps.seconds(now + 1000))
    gateway = await start_guarded()
    client = await gateway.connect()
    for _ in range(2):
        client.post(authorization=f"Bearer {key}")
        assert (await client.response()).status == 200
    monkeypatch.setattr(time, "time", lambda: now + 1001)
    client.post(authorization=f"Bearer {key}")
    response = await client.response()
    assert (response.status, response.json["error"]["code"]) == (401, "expired_api_key")


async def test_a_new_key_counts_at_once(start_guarded, keys_file):
    """Without a restart."""
    gateway = await start_guarded()
    key = keys_file.make()
    gateway.shell.services.credentials.look()
    assert (await gateway.ask(x_api_key=key)).status == 200


@pytest.mark.parametrize("bad", ["[", '[{"id": "a"}]', '[{"id": "a", "tenant": "A!", "sha256": "00"}]'])
async def test_a_bad_file_changes_nothing_and_is_told(start_guarded, keys_file, bad, caplog):
    """The keys that it had stay valid. The supervisor, which reads the file too, tells it as an error."""
    caplog.set_level(logging.DEBUG)
    key = keys_file.make()
    gateway = await start_guarded()
    keys_file.path.write_text(bad)
    gateway.shell.services.credentials.look()
    assert (await gateway.ask(x_api_key=key)).status == 200
    assert re.search(r"auth.keys_file: .*keys.json", caplog.text)
    assert "auth.keys_file" in gateway.shell.services.credentials.troubles


async def test_a_file_that_others_may_read_lets_nobody_in(start_guarded, keys_file, caplog):
    """What was never read safely is not used."""
    caplog.set_level(logging.DEBUG)
    key = keys_file.make()
    keys_file.path.chmod(0o644)
    gateway = await start_guarded()
    assert (await gateway.ask(x_api_key=key)).status == 401
    assert "chmod 600" in caplog.text


async def test_a_key_for_pages_serves_no_requests(start_guarded, keys_file):
    """It is with operators and Prometheus, and not with clients."""
    key = keys_file.make(admin=True)
    gateway = await start_guarded()
    response = await gateway.ask(x_api_key=key)
    assert (response.status, response.json["error"]["code"]) == (403, "admin_key")


async def test_turning_it_on_and_off_while_serving(start_guarded, keys_file):
    """Settings change for open connections too."""
    gateway = await start_guarded()
    client = await gateway.connect()
    gateway.shell.change(gateway.shell.settings.replace(auth_mode="off"))
    client.post()
    assert (await client.response()).status == 200
    gateway.shell.change(gateway.shell.settings.replace(auth_mode="auto"))
    client.post()
    assert (await client.response()).status == 401


async def _status(gateway, method, path):
    client = await gateway.connect()
    client.send(f"{method} {path} HTTP/1.1\r\nhost: g\r\ncontent-length: 0\r\n\r\n".encode())
    return (await client.head()).status
