"""Simulated engines over HTTP, which write pages as real ones do."""

import contextlib

import httpx2
import pytest

from headgate import engines
from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings, listen, running

CONFIG = PROFILES["fast"].config


class Served:
    """One engine, and a client of it."""

    def __init__(self, client, api):
        self._client = client
        self.engine = engines.named(api)

    async def load(self, name, path):
        body = {"lora_name": name, "lora_path": path}
        return (await self._client.post("/v1/load_lora_adapter", json=body)).status_code

    async def unload(self, name):
        return (await self._client.post("/v1/unload_lora_adapter", json={"lora_name": name})).status_code

    async def complete(self, model):
        body = {"model": model, "prompt": "a prompt of a few words", "max_tokens": 3}
        assert (await self._client.post("/v1/completions", json=body)).status_code == 200

    async def figures(self):
        return engines.read((await self._client.get("/metrics")).content, self.engine.metrics)

    async def models(self):
        return engines.read_models((await self._client.get("/v1/models")).content).names


@pytest.fixture
async def serve():
    """Starts engines of a kind; more settings by keyword."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(api="vllm", **settings):
            sock = listen("127.0.0.1", 0)
            url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            made = ServerSettings(engine=CONFIG, models=("base",), drain_s=0, api=api, **settings)
            await stack.enter_async_context(running(made, sock, None))
            client = await stack.enter_async_context(
                httpx2.AsyncClient(base_url=url, timeout=20, verify=False)
            )
            return Served(client, api)

        yield start


@pytest.mark.parametrize(
    ("api", "generation"), [("vllm", "new"), ("vllm", "old"), ("sglang", "new"), ("trtllm", "new")]
)
async def test_pages_of_all_engines_are_read(serve, api, generation):
    """By today's names and by those before."""
    served = await serve(api, metrics_generation=generation)
    await served.complete("base")
    figures = await served.figures()
    assert (figures.waiting, figures.running, figures.kv_usage) == (0, 0, 0.0)
    assert (figures.block_tokens, figures.blocks) == (CONFIG.block_size, CONFIG.kv_blocks)
    assert figures.malformed == 0
    if served.engine.metrics.ttft:
        assert figures.ttft.samples == 1


@pytest.mark.parametrize("api", ["vllm", "sglang"])
async def test_ranks_are_one_engine(serve, api):
    """Each has a cache of its own; what they have done is added up."""
    served = await serve(api, data_parallel_size=3)
    for _ in range(6):
        await served.complete("base")
    figures = await served.figures()
    assert figures.blocks == 3 * CONFIG.kv_blocks
    assert figures.ttft.samples == 6
    assert figures.waiting == figures.running == 0


async def test_adapters_are_loaded_and_unloaded(serve):
    """By vLLM's calls; then it answers to their names, and tells how many fit."""
    served = await serve()
    assert await served.load("sql", "/adapters/sql") == 200
    assert await served.models() == {"base", "sql"}
    await served.complete("sql")
    assert (await served.figures()).max_adapters == CONFIG.max_adapters
    assert await served.load("sql", "/adapters/sql") == 400
    assert await served.unload("sql") == 200
    assert await served.models() == {"base"}
    assert await served.unload("sql") == 404
