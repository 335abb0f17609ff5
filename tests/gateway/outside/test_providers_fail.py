"""Faults of a provider: each is told by the gateway in words of its own, and none shows the key."""

import datetime
import json
import logging

import pytest

CHAT = {"model": "big", "messages": []}
JSON = {"content-type": "application/json"}


@pytest.fixture
async def tells_nothing(outside, provider_key, caplog, capsys):
    """Checks that the key is in no response, log, metric or page of a gateway."""
    caplog.set_level(logging.DEBUG)
    asked = []

    async def ask(gateway, body=None, path="/v1/chat/completions"):
        response = await gateway.ask(body or CHAT, path)
        asked.append((gateway, response))
        return response

    yield ask
    for _, response in asked:
        assert provider_key.encode() not in response.body
        assert provider_key not in str(response.headers)
    for gateway in {id(gateway): gateway for gateway, _ in asked}.values():
        from headgate.gateway import pages  # the pages are those of the admin port

        await gateway.idle()
        shell = gateway.shell
        assert provider_key not in json.dumps(pages.describe(shell))
        assert provider_key not in str([list(family.samples) for family in gateway.registry.collect()])
        assert provider_key not in repr(vars(shell.services.providers)["_read"])
        assert provider_key not in "\n".join(gateway.log_lines())
    assert provider_key not in caplog.text
    assert provider_key not in "".join(capsys.readouterr())


def errs(status, **headers):
    """A provider that repeats the credentials in its errors."""

    def behave(call):
        told = {"error": {"message": f"wrong: {call.header('authorization')}"}}
        call.answer(json.dumps(told).encode(), f"{status} Status", **JSON, **headers)

    return behave


@pytest.mark.parametrize(
    ("theirs", "status", "code", "told"),
    [
        (
            401,
            502,
            "provider_key_rejected",
            "the provider 'cloud' rejected the gateway's key, with status 401",
        ),
        (403, 502, "provider_key_rejected", "with status 403"),
        (302, 502, "provider_failed", "redirects, with status 302, which is not followed"),
        (400, 400, "provider_refused", "rejected the request, with status 400"),
        (404, 404, "provider_refused", "with status 404"),
        (429, 429, "provider_saturated", "accepts no further requests now"),
        (500, 502, "provider_failed", "the provider 'cloud' failed, with status 500"),
        (529, 502, "provider_failed", "with status 529"),
    ],
)
async def test_a_status(outside, tells_nothing, theirs, status, code, told):
    """The body of its error, which may show the operator's account, is not passed on."""
    gateway = await outside.gateway(await outside.provider(errs(theirs, location="https://elsewhere/")))
    response = await tells_nothing(gateway)
    assert (response.status, response.json["error"]["code"]) == (status, code)
    assert told in response.json["error"]["message"]
    assert "after 'big' (no-endpoint)" in response.json["error"]["message"]
    assert response.header("location") is None


@pytest.mark.parametrize(
    ("theirs", "caused_by"),
    [(401, "gateway"), (302, "upstream"), (400, "client"), (429, "upstream"), (500, "upstream")],
)
async def test_who_caused_it(outside, theirs, caused_by):
    """The access log and the dashboard name the provider for its failures, and the gateway for its key."""
    gateway = await outside.gateway(await outside.provider(errs(theirs)))
    await gateway.ask(CHAT)
    await gateway.idle()
    (line,) = gateway.log_lines()
    assert f" origin={caused_by} " in line


@pytest.mark.parametrize("theirs", [429, 503])
@pytest.mark.parametrize(("wait", "told"), [("17", "17"), ("9" * 20, "1000000000"), ("soon", None)])
async def test_a_wait(outside, tells_nothing, theirs, wait, told):
    gateway = await outside.gateway(await outside.provider(errs(theirs, **{"retry-after": wait})))
    response = await tells_nothing(gateway)
    is_kept = told is not None or theirs == 429
    assert (response.status, response.header("retry-after")) == (theirs if is_kept else 502, told)


async def test_the_next_provider(outside, tells_nothing):
    """One whose key is rejected is left for the next."""
    cloud = await outside.provider(errs(401))
    spare = await outside.provider(lambda call: call.answer(b'{"choices":[]}', **JSON))
    gateway = await outside.gateway(cloud, "provider=cloud", "provider=spare")
    outside.write(
        cloud={"url": f"https://127.0.0.1:{cloud.port}"}, spare={"url": f"https://127.0.0.1:{spare.port}"}
    )
    gateway.shell.services.providers.look()
    response = await tells_nothing(gateway)
    assert (response.status, response.header("x-headgate-model")) == (200, "spare/mini")
    assert response.header("x-headgate-fallback") == "big;no-endpoint, cloud/mini;error"


async def test_a_reset(outside, tells_nothing):
    gateway = await outside.gateway(await outside.provider(lambda call: call.reset()))
    response = await tells_nothing(gateway)
    assert (response.status, response.json["error"]["code"]) == (502, "upstream_failed")
    assert "this was for 'cloud/mini'" in response.json["error"]["message"]


async def test_a_reset_within_a_stream(outside, tells_nothing):
    """The stream ends with an error."""

    def breaks_off(call):
        call.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 999\r\n\r\n")
        call.write(b'data: {"choices": [{}]}\n\n')
        call.close()

    gateway = await outside.gateway(await outside.provider(breaks_off))
    response = await tells_nothing(gateway, CHAT | {"stream": True})
    assert response.status == 200
    assert b"the endpoint closed the connection" in response.body


async def test_a_hang(outside, tells_nothing):
    cloud = await outside.provider()
    gateway = await outside.gateway(cloud, timeout_s=0.2)
    response = await tells_nothing(gateway)
    assert (response.status, response.json["error"]["code"]) == (504, "upstream_timeout")


async def test_garbage(outside, tells_nothing):
    gateway = await outside.gateway(
        await outside.provider(lambda call: call.write(b"SSH-2.0-garbage\r\n\r\n"))
    )
    response = await tells_nothing(gateway)
    assert (response.status, response.json["error"]["code"]) == (502, "upstream_invalid")


async def test_nobody_there(outside, tells_nothing):
    cloud = await outside.provider()
    await cloud.stop()
    response = await tells_nothing(await outside.gateway(cloud))
    assert (response.status, response.json["error"]["code"]) == (503, "endpoint_unreachable")


@pytest.mark.parametrize(
    ("certificate", "why"),
    [
        ({"name": "other.example"}, "IP address mismatch"),
        ({"until": datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)}, "expired"),
        ({"authority": "other"}, "unable to get local issuer certificate"),
        ({"authority": "system"}, "unable to get local issuer certificate"),
    ],
)
async def test_a_bad_certificate(outside, tells_nothing, certificate, why):
    """Nothing is sent, and the log says why. Without a CA file, only the CAs of the system count."""
    wanted = dict(certificate)
    authority = wanted.pop("authority", None)
    if authority == "other":
        wanted["authority"] = outside.other
    cloud = await outside.provider(lambda call: call.answer(b"{}"), **wanted)
    gateway = await outside.gateway(cloud, **({"ca_file": None} if authority == "system" else {}))
    response = await tells_nothing(gateway)
    assert (response.status, response.json["error"]["code"]) == (503, "endpoint_unreachable")
    assert not cloud.calls
    (line,) = gateway.log_lines()
    assert "has a certificate that is not trusted" in line
    assert why in line


async def test_plain_http(outside, tells_nothing, start_endpoint):
    """The key is never sent in the clear."""
    cloud = await start_endpoint(behave=lambda call: call.answer(b"{}"))
    response = await tells_nothing(await outside.gateway(cloud))
    assert response.status == 503
    assert not cloud.calls
