"""Rules on headers and paths are written in Unicode and compared as UTF-8 bytes."""

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
    gateway.shell.use(msgspec.structs.replace(gateway.shell.plane.snapshot, models=made, adapters={}))


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
async def test_only_the_same_bytes_match(ready, endpoint, condition):
    """Latin-1 of the same characters is another text."""
    serve(ready, endpoint, condition)
    assert await status(ready, "Zürich".encode()) == 200
    assert await status(ready, "Zürich".encode("latin-1")) == 404
    assert await status(ready, b"Z\xc3rich") == 404


@pytest.mark.parametrize("condition", [{"exact": "Ã©"}, {"prefix": "Ã"}, {"regex": "^Ã"}], ids=str)
async def test_another_text_never_matches(ready, endpoint, condition):
    """The bytes of "é" in UTF-8 are those of "Ã©" in Latin-1, which a rule of another tenant may name."""
    serve(ready, endpoint, condition)
    assert await status(ready, "é".encode()) == 404
    assert await status(ready, "Ã©".encode()) == 200


async def test_any_bytes_are_answered(ready, endpoint):
    """Half a character, bytes that are no UTF-8: they are some character, and none in particular."""
    serve(ready, endpoint, {"regex": "^.$"})
    assert await status(ready, b"\xff") == 200
    assert await status(ready, b"\xc3") == 200
    assert await status(ready, "é".encode()) == 200
    assert await status(ready, b"\xf0\x9f\x98") == 200
    serve(ready, endpoint, {"exact": "\xff"})
    assert await status(ready, b"\xff") == 404


async def test_a_missing_character_class_is_of_characters(ready, endpoint):
    """A class of characters counts characters, not bytes."""
    serve(ready, endpoint, {"regex": "^[^a]{3}$"})
    assert await status(ready, "äöü".encode()) == 200
    assert await status(ready, "äöüä".encode()) == 404
