import logging

import httpx2
import pytest

from headgate.simulator.server import FailureSettings
from headgate.simulator.server.http_log import MAX_BODY_BYTES

LOGGER = "headgate.simulator.server.http_log"
ASKED = {"model": "tiny", "prompt": "how deep", "max_tokens": 2}


async def logged(serve, caplog, eventually, body, headers=None, **settings):
    """What is in the log after a request, and its answer."""
    caplog.set_level(logging.INFO, LOGGER)
    async with serve(**settings) as server:
        answer = await server.client.post("/v1/completions?a=b", json=body, headers=headers)
        if settings.get("log_http"):
            await eventually(lambda: len(messages(caplog)) == 2)
    return messages(caplog), answer


def messages(caplog):
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


async def test_heads_and_bodies_are_in_the_log(serve, caplog, eventually):
    """Of the request and of the answer."""
    (request, told), answer = await logged(
        serve, caplog, eventually, ASKED, {"x-request-id": "r1"}, log_http=True
    )
    assert request.startswith("request: POST /v1/completions?a=b ")
    assert "x-request-id=r1" in request
    assert '"prompt":"how deep"' in request
    assert told.startswith("answer: 200 ")
    assert told.endswith(answer.text)


async def test_keys_are_not_in_the_log(serve, caplog, eventually):
    """A head that lets a client in is named without its value."""
    (request, _), _ = await logged(
        serve, caplog, eventually, ASKED, {"authorization": "Bearer secret"}, log_http=True
    )
    assert "authorization=***" in request
    assert "secret" not in request


async def test_long_bodies_are_cut_in_the_log(serve, caplog, eventually):
    """The log says how much is missing; streams are cut as well."""
    body = ASKED | {"prompt": "deep " * 5000, "max_tokens": 100, "stream": True}
    (request, told), answer = await logged(serve, caplog, eventually, body, log_http=True)
    more = len(answer.content) - MAX_BODY_BYTES
    assert told.endswith(f"... ({more} bytes more)")
    assert len(request) < 2 * MAX_BODY_BYTES


async def test_nothing_is_logged_unless_asked(serve, caplog, eventually):
    """Without the option."""
    assert (await logged(serve, caplog, eventually, ASKED))[0] == []


async def test_connections_that_are_cut_are_logged(serve, caplog, eventually):
    """What was said until then is there, and the client sees the cut as it does without a log."""
    failures = FailureSettings(failure_injection_rate=100, failure_types=("reset",))
    caplog.set_level(logging.INFO, LOGGER)
    async with serve(log_http=True, failures=failures) as server:
        with pytest.raises(httpx2.TransportError):
            await server.client.post("/v1/completions", json=ASKED)
        await eventually(lambda: len(messages(caplog)) == 2)
