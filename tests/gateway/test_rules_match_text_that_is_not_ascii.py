"""Rules on headers and paths are written in Unicode; what clients send are bytes, UTF-8 or Latin-1."""

import msgspec
import pytest

from headgate import api, routing

CONDITIONS = [
    {"exact": "Zürich/中"},
    {"prefix": "Zür"},
    {"regex": "^Z[ü]rich"},
    {"regex": "ich/."},
]


def serve(gateway, endpoint, condition, place="headers"):
    """Requests that meet the condition go to the model "match", others to "other"."""
    match = {"headers": {"x-city": condition}} if place == "headers" else {"uri": condition}
    targets = [{"modelServerName": "pool"}]
    spec = {"modelName": "m", "rules": [{"name": "match", "modelMatch": match, "targetModels": targets}]}
    source = msgspec.convert(
        {"metadata": {"name": "r", "namespace": "default"}, "spec": spec}, api.ModelRoute
    )
    gateway.serve([endpoint])
    made = routing.translate([source], [], []).models
    gateway.proxy.use(msgspec.structs.replace(gateway.proxy.snapshot, models=made, adapters={}))


async def status(gateway, value: bytes, path: bytes = b"/v1/completions"):
    client = await gateway.connect()
    body = b'{"model":"m","prompt":"p"}'
    client.send(
        b"POST %b HTTP/1.1\r\nhost: g\r\nx-city: %b\r\ncontent-length: %d\r\n\r\n%b"
        % (path, value, len(body), body)
    )
    return (await client.response()).status


@pytest.fixture
async def ready(gateway, endpoint):
    endpoint.behave = lambda call: call.answer()
    return gateway


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
async def test_utf8_matches(ready, endpoint, condition):
    serve(ready, endpoint, condition)
    assert await status(ready, "Zürich/中".encode()) == 200
    assert await status(ready, b"Zurich/x") == (200 if condition == {"regex": "ich/."} else 404)


@pytest.mark.parametrize("condition", [{"exact": "Zürich"}, {"prefix": "Zü"}, {"regex": "^Zürich$"}], ids=str)
async def test_latin1_and_utf8_match_alike(ready, endpoint, condition):
    serve(ready, endpoint, condition)
    assert await status(ready, "Zürich".encode("latin-1")) == 200
    assert await status(ready, "Zürich".encode()) == 200
    assert await status(ready, "Zürich".encode("utf-16-le").replace(b"\0", b"")) == 200  # Latin-1, again
    assert await status(ready, b"Z\xc3rich") == 404


async def test_any_bytes_are_answered(ready, endpoint):
    """Half a character, bytes that are no UTF-8: they match what they look like as Latin-1, or nothing."""
    serve(ready, endpoint, {"regex": "^.$"})
    assert await status(ready, b"\xff") == 200
    assert await status(ready, b"\xc3") == 200
    assert await status(ready, "é".encode()) == 200
    assert await status(ready, b"\xf0\x9f\x98") == 404


async def test_a_missing_character_class_is_of_characters(ready, endpoint):
    """A class of characters counts characters, not bytes."""
    serve(ready, endpoint, {"regex": "^[^a]{3}$"})
    assert await status(ready, "äöü".encode()) == 200
    assert await status(ready, "äöüä".encode()) == 404
