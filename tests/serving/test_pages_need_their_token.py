"""The pages of pickers, body routers and controllers are open to those with their token, if there is one."""

import inspect
import os
from unittest.mock import MagicMock

import pytest

from headgate import serving
from headgate.controllers import pages as pages_of_controllers
from headgate.picker import pages as pages_of_pickers
from headgate.picker import router_service

HEALTH = {"/healthz", "/readyz"}
TOKEN = b"the-token-of-prometheus"


def made(make):
    """The pages of nobody: only their paths matter."""
    return make(*(MagicMock() for _ in inspect.signature(make).parameters))


ALL = {
    "picker": made(pages_of_pickers.pages),
    "body router": made(router_service._pages),
    "controller": made(pages_of_controllers.pages),
}


async def status(app, path, *headers, method="GET"):
    """The status of a response; 200 if the request was passed on."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": list(headers)}
    await app(scope, None, send)
    return sent[0]["status"]


def guarded(file, seen=None):
    """An application that notes the headers that reach it."""

    async def app(scope, receive, send):
        if seen is not None:
            seen.append(scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": []})

    return serving.by_token_file(app, file)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "token"
    path.write_bytes(TOKEN + b"\n")
    return path


@pytest.mark.parametrize("which", ALL)
async def test_only_health_is_open(which, file):
    """Whatever path, method or credential."""
    app = guarded(file)
    paths = {route.path for route in ALL[which].routes} | {"/", "/x", "/healthz/", "//healthz"}
    assert "/metrics" in paths
    for path in paths:
        for header in (
            (),
            ((b"authorization", b"Bearer "),),
            ((b"authorization", b"Bearer wrong"),),
            ((b"authorization", b"Basic " + TOKEN),),
            ((b"authorization", TOKEN),),
            ((b"x-api-key", TOKEN[:-1]),),
            ((b"cookie", TOKEN),),
        ):
            for method in ("GET", "POST"):
                is_open = path in HEALTH and method == "GET"
                assert await status(app, path, *header, method=method) == (200 if is_open else 401)


async def test_the_token_opens(file):
    """Also after it was replaced, and it goes no further; other headers do."""
    seen = []
    app = guarded(file, seen)
    assert await status(app, "/metrics", (b"a", b"b"), (b"authorization", b"bearer " + TOKEN)) == 200
    assert await status(app, "/metrics", (b"x-api-key", TOKEN)) == 200
    assert seen == [[(b"a", b"b")], []]
    file.write_bytes(b"another-token-0123456789")
    assert await status(app, "/metrics", (b"x-api-key", TOKEN)) == 401
    assert await status(app, "/metrics", (b"x-api-key", b"another-token-0123456789")) == 200


@pytest.mark.parametrize("content", [None, b"", b" \n"])
async def test_without_a_token_in_the_file_nobody_gets_in(file, content):
    """An empty token must not be one that everybody has."""
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    for header in ((), ((b"authorization", b"Bearer "),), ((b"x-api-key", b""),)):
        assert await status(guarded(file), "/metrics", *header) == 401


async def test_without_a_file_everybody_does():
    """As before."""
    assert await status(guarded(None), "/metrics") == 200


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
async def test_what_is_no_file_is_no_token(tmp_path, make):
    """A pipe is not waited for, which would stop all pages, and nothing stays open."""
    make(tmp_path / "token")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert await status(guarded(tmp_path / "token"), "/metrics", (b"x-api-key", TOKEN)) == 401
    assert len(os.listdir("/proc/self/fd")) == before
