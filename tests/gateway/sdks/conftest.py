"""The real SDKs in front of a gateway, with a simulated engine or scripted engine responses behind it."""

import contextlib
import json
import types
from collections.abc import AsyncIterator

import anthropic
import openai
import pytest
import uvloop

from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings, listen, running

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def pytest_asyncio_loop_factories(config, item):
    """On the event loop that the gateway runs on: SDKs are slow to make."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def start_simulator() -> AsyncIterator[object]:
    """Starts a simulated engine that serves a model, and takes no time for it."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(model: str) -> types.SimpleNamespace:
            sock = listen("127.0.0.1", 0)
            port = sock.getsockname()[1]
            settings = ServerSettings(engine=PROFILES["fast"].config, models=(model,), drain_s=0)
            await stack.enter_async_context(running(settings, sock))
            return types.SimpleNamespace(port=port)

        yield start


@pytest.fixture
async def simulator(start_simulator) -> types.SimpleNamespace:
    """One that serves the model "m"."""
    return await start_simulator("m")


@pytest.fixture
async def openai_sdk() -> AsyncIterator[object]:
    """Makes the SDK's client of a gateway, without retries that would hide an error."""
    made = []

    def of(gateway) -> openai.AsyncOpenAI:
        url = f"http://127.0.0.1:{gateway.port}/v1"
        plain = openai.DefaultAsyncHttpxClient(verify=False)
        made.append(openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=plain))
        return made[-1]

    yield of
    for client in made:
        await client.close()


@pytest.fixture
async def anthropic_sdk() -> AsyncIterator[object]:
    """The same for Anthropic's."""
    made = []

    def of(gateway) -> anthropic.AsyncAnthropic:
        url = f"http://127.0.0.1:{gateway.port}"
        plain = anthropic.DefaultAsyncHttpxClient(verify=False)
        made.append(anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0, http_client=plain))
        return made[-1]

    yield of
    for client in made:
        await client.close()


def says(document: object, status: str = "200 OK"):
    """An endpoint that answers with this document."""
    body = json.dumps(document).encode()
    return lambda call: call.answer(body, status, **{"content-type": "application/json"})


def streams(*events: object, name: bool = False, ends: bool = True):
    """An endpoint that streams these events, each with its type as its name if that is wanted; then it ends
    well, or breaks off."""

    def behave(call):
        call.write(HEAD)
        for event in events:
            text = event if isinstance(event, str) else json.dumps(event)
            named = f"event: {event['type']}\n" if name else ""
            data = f"{named}data: {text}\n\n".encode()
            call.write(b"%x\r\n%b\r\n" % (len(data), data))
        if ends:
            call.write(b"0\r\n\r\n")
        else:
            call.close()

    return behave


@pytest.fixture(name="says")
def _says():
    return says


@pytest.fixture(name="streams")
def _streams():
    return streams
