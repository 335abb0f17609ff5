"""The gateway knows the caches of simulated engines that publish them, whoever sent the prompts."""

import asyncio
import contextlib
import json
import random
from dataclasses import dataclass

import msgspec
import pytest

from headgate import routing
from headgate.fleet.prefix import hashing, tiers
from headgate.requests.bodies import prompt
from headgate.requests.bodies.fields import inspect
from headgate.simulator.model import PROFILES
from headgate.simulator.server import KvEventsConfig, ServerSettings, listen, running

RNG = random.Random(5)
WORDS = [
    "".join(RNG.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(RNG.randint(2, 9))) for _ in range(500)
]


def text(length):
    words = ""
    while len(words) < length:
        words += RNG.choice(WORDS) + " "
    return words


@dataclass
class Engine:
    port: int
    events: routing.KvEvents


@contextlib.asynccontextmanager
async def engine(**kv_blocks):
    published = KvEventsConfig(endpoint="tcp://127.0.0.1:0", replay_endpoint="tcp://127.0.0.1:0")
    config = msgspec.structs.replace(
        PROFILES["fast"].config, **({"kv_blocks": 400} | kv_blocks), max_model_len=6000
    )
    sock = listen("127.0.0.1", 0)
    settings = ServerSettings(engine=config, models=("m",), drain_s=0, kv_events=published)
    async with running(settings, sock):
        port = sock.getsockname()[1]
        (source,) = await get(port, "/kv_event_sources")
        ports = [int(source[name].rpartition(":")[2]) for name in ("endpoint", "replay_endpoint")]
        yield Engine(port, routing.KvEvents(port=ports[0], replay_port=ports[1]))


async def get(port, path):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: e\r\nconnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def chat(said):
    return {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": said}]}


@pytest.fixture(name="listening")
async def _listening(start_gateway):
    """A gateway over two engines."""
    async with engine() as one, engine() as other:
        yield await listening_to(start_gateway, one, other)


async def listening_to(start_gateway, *engines):
    gateway = await start_gateway()
    gateway.shell.kv_events.start()
    told = {
        routing.Endpoint(f"default/pod-{place}", "127.0.0.1", each.port): each.events
        for place, each in enumerate(engines)
    }
    gateway.serve(engines, kv_events=told)
    sources = gateway.shell.kv_events.sources
    await until(lambda: {source.state for source in sources.values()} == {"live"})
    return gateway


def matched(gateway, body):
    """How many of a prompt's blocks each engine is known to hold, and how many there are."""
    fields = inspect(json.dumps(body).encode())
    (pool,) = gateway.shell.plane.pools.values()
    prefix = hashing.hashes(prompt.read(fields, "/v1/chat/completions").text, hashing.seed("m"))
    return gateway.shell.plane.prefixes.matched(prefix, pool.loads), len(prefix)


async def test_what_somebody_else_sent_is_known(listening):
    """Once the prompt's tokens are known, it is found on every engine that has it, until it is evicted."""
    gateway = listening
    engines, tokens = loads(gateway), gateway.shell.kv_events.tokens.counts
    residency = gateway.shell.kv_events.exact.residency
    for load in engines:
        await ask_directly(load.endpoint.port, chat("Hello! " * 20))
    await until(lambda: all(residency.blocks(load) for load in engines))
    body = chat(text(9000))
    (found, blocks) = matched(gateway, body)
    assert found == [0, 0]
    assert (await gateway.ask(body)).status == 200
    await until(lambda: tokens["learned"] == 1)
    await until(lambda: sorted(matched(gateway, body)[0]) == [0, blocks])
    # Now it comes to both engines in another way.
    for load in engines:
        await ask_directly(load.endpoint.port, body)
    await until(lambda: matched(gateway, body)[0] == [blocks, blocks])
    # What is sent to one of them by somebody else takes its place there.
    for _ in range(4):
        await ask_directly(engines[1].endpoint.port, chat(text(9000)))
    await until(lambda: matched(gateway, body)[0][1] < blocks // 2)
    assert matched(gateway, body)[0][0] == blocks
    assert tokens["failed"] == 0


def loads(gateway):
    (pool,) = gateway.shell.plane.pools.values()
    return pool.loads


async def ask_directly(port, body):
    """Asks an engine behind the gateway's back. Returns the number of the prompt's tokens."""
    data = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: e\r\nconnection: close\r\ncontent-length: {len(data)}"
    )
    writer.write(f"{head}\r\ncontent-type: application/json\r\n\r\n".encode() + data)
    answer = await reader.read()
    writer.close()
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    return json.loads(content)["usage"]["prompt_tokens"]


async def test_what_left_the_accelerator_is_known_to_be_in_slower_memory(start_gateway):
    """The host's memory, then a disk: a prompt sinks as others come, and counts for less and less."""
    async with engine(host_kv_blocks=400, disk_kv_blocks=4000) as each:
        gateway = await listening_to(start_gateway, each)
        residency, (load,) = gateway.shell.kv_events.exact.residency, loads(gateway)
        await ask_directly(each.port, chat("Hello! " * 20))
        await until(lambda: residency.blocks(load))
        body = chat(text(9000))
        assert (await gateway.ask(body)).status == 200
        await until(lambda: gateway.shell.kv_events.tokens.counts["learned"] == 1)
        found = [matched(gateway, body)[0][0]]
        for _ in range(29):
            before, shared = residency.blocks(load), 1
            tokens = await ask_directly(each.port, chat(text(3000)))
            stored = before + tokens // residency.block_tokens(load) - shared
            await until(lambda stored=stored: residency.blocks(load) >= stored)
            found.append(matched(gateway, body)[0][0])
        blocks = matched(gateway, body)[1]
        assert found == sorted(found, reverse=True)
        assert {found[0], found[-1]} == {blocks, int(tiers.WEIGHTS[tiers.STORAGE] * blocks)}
        assert int(tiers.WEIGHTS[tiers.HOST] * blocks) in found
        assert gateway.shell.kv_events.counts()["invalid"] == 0
        in_tiers = gateway.shell.kv_events.shown(load, 0.0)["in_tiers"]
        assert in_tiers["accelerator"] <= in_tiers["host"] == 400 < in_tiers["storage"]
