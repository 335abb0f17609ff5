"""A real vLLM behind the gateway: its page is read as it is meant, and its cache does what was predicted."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate import engines
from headgate.fleet.prefix import hashing
from headgate.requests.bodies import prompt
from headgate.requests.bodies.fields import inspect

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

TEXT = (Path(__file__).parents[2] / "docs" / "gateway.md").read_text()


def test_its_page_has_the_names_that_are_looked_for(vllm):
    """All of them, but for adapters, which nobody has used yet; a parser of the whole page finds the same."""
    page = vllm.get("/metrics").text
    names = engines.named("vLLM").metrics
    figures = engines.read(page.encode(), names)
    parsed = {
        (sample.name, sample.labels.get("engine")): sample
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert figures.waiting == parsed[names.waiting[0], "0"].value
    assert figures.running == parsed[names.running[0], "0"].value
    assert figures.kv_usage == parsed[names.kv_usage[0], "0"].value
    assert figures.ttft.samples == parsed[f"{names.ttft[0]}_count", "0"].value
    assert figures.tpot.sum_s == parsed[f"{names.tpot[0]}_sum", "0"].value
    cache = parsed[names.cache[0].family, "0"].labels
    assert figures.block_tokens == int(cache["block_size"]) == 32
    assert figures.blocks == int(cache["num_gpu_blocks"])
    assert figures.malformed == 0


async def test_the_gateway_knows_how_it_is(gateway):
    """Its models, its cache, what runs in it while something runs, and how long first tokens take."""
    await gateway.until(lambda: gateway.load.reading and gateway.load.reading.models)
    reading = gateway.load.reading
    assert reading.models == {"tiny"}
    assert (reading.block_tokens, reading.waiting) == (32, 0)
    assert reading.blocks > 100
    running = [asyncio.ensure_future(gateway.complete(f"{place} {TEXT[:200]}", 400)) for place in range(4)]
    await gateway.until(lambda: gateway.load.reading and gateway.load.reading.running == 4)
    assert 0 < gateway.load.reading.kv_usage < 1
    await asyncio.gather(*running)
    await gateway.until(lambda: gateway.load.reading and gateway.load.reading.running == 0)
    await gateway.until(lambda: gateway.load.reading.ttft_s and gateway.load.reading.tpot_s)
    assert 0 < gateway.load.reading.ttft_s < 60
    assert gateway.shell.scraper.looks.pages["failed"] == 0


async def test_what_was_predicted_is_in_its_cache(gateway, vllm):
    """A prompt that was sent before, and grows by a little: all but its end is found, as its usage says."""
    hits = vllm.counter("vllm:prefix_cache_hits_total")
    first = await gateway.complete(TEXT[:3000])
    grown = await gateway.complete(TEXT[:3300])
    assert _cached(first) == 0
    assert _expected_share(first) == 0
    share = _cached(grown) / grown.json()["usage"]["prompt_tokens"]
    assert share > 0.8
    # What comes after the last whole block of bytes is not looked up.
    assert 0.0 <= share - _expected_share(grown) < hashing.BLOCK_BYTES / 3300 + 0.1
    assert vllm.counter("vllm:prefix_cache_hits_total") - hits == _cached(grown)


async def test_adapters_come_and_go(gateway, vllm):
    """By the calls of the engine; the gateway knows of it, and sends requests for the adapter there."""
    assert _load(vllm).status_code == 200
    await gateway.until(lambda: _models(gateway) == {"tiny", "nonsense"})
    plain = await gateway.complete(TEXT[:300], 300)
    request = asyncio.ensure_future(gateway.complete(TEXT[:300], 300, model="nonsense"))
    await gateway.until(
        lambda: gateway.load.reading and gateway.load.reading.adapters_running == {"nonsense"}
    )
    assert gateway.load.reading.max_adapters == 2
    assert (await request).json()["choices"] != plain.json()["choices"]
    await gateway.until(lambda: gateway.load.reading and not gateway.load.reading.adapters_running)
    assert _unload(vllm).status_code == 200
    await gateway.until(lambda: _models(gateway) == {"tiny"})


def _load(vllm):
    body = {"lora_name": "nonsense", "lora_path": str(vllm.directory / "adapter")}
    return vllm.post("/v1/load_lora_adapter", json.dumps(body))


def _unload(vllm):
    return vllm.post("/v1/unload_lora_adapter", json.dumps({"lora_name": "nonsense"}))


def _models(gateway):
    gateway.shell.scraper.list_models_soon(gateway.load)
    return gateway.load.reading.models if gateway.load.reading else None


def _cached(response):
    details = response.json()["usage"].get("prompt_tokens_details") or {}
    return details.get("cached_tokens", 0)


def _expected_share(response):
    cached, prompt = re.search(r"cached=(\d+)/(\d+)", response.headers["x-headgate-decision"]).groups()
    return int(cached) / int(prompt)


async def test_what_it_tells_of_its_cache_is_found_by_bytes(gateway):
    """What it publishes agrees with what it says that the tokens of a prompt are: of both APIs."""
    events = gateway.shell.kv_events
    await gateway.until(lambda: events.shown(gateway.load, 0.0)["state"] == "live" and gateway.load.reading)
    chat = {"model": "tiny", "max_tokens": 2, "messages": [{"role": "user", "content": TEXT[3600:5700]}]}
    completion = {"model": "tiny", "max_tokens": 2, "prompt": TEXT[5700:7900]}
    for path, body in (("/v1/chat/completions", chat), ("/v1/completions", completion)):
        learned = events.tokens.counts["learned"]
        prefix = await _ask(gateway, path, body)
        await gateway.until(lambda before=learned: events.tokens.counts["learned"] == before + 1)
        assert len(prefix) >= 2
        # Neither what was sent nor what is expected counts, but what the engine has told of.
        gateway.shell.plane.prefixes.forget(gateway.load)
        events.exact.residency.sweep(1e12)
        await gateway.until(
            lambda prefix=prefix: (
                gateway.shell.plane.prefixes.matched(prefix, [gateway.load]) == [len(prefix)]
            )
        )
    assert events.counts()["invalid"] == 0
    assert events.counts()["missed"] == 0
    assert events.shown(gateway.load, 0.0)["block_tokens"] == 32


async def test_what_an_adapter_has_in_the_cache_is_found_by_bytes(gateway, vllm):
    """The engine names the adapter in its events, besides the tokens."""
    events = gateway.shell.kv_events
    await gateway.until(lambda: events.shown(gateway.load, 0.0)["state"] == "live" and gateway.load.reading)
    assert _load(vllm).status_code == 200
    await gateway.until(lambda: _models(gateway) == {"tiny", "nonsense"})
    learned, path = events.tokens.counts["learned"], "/v1/completions"
    for text in (TEXT[7900:8100], TEXT[300:2500]):  # the first tells how large blocks are
        prefix = await _ask(gateway, path, {"model": "nonsense", "max_tokens": 2, "prompt": text})
    await gateway.until(lambda: events.tokens.counts["learned"] == learned + 1)
    gateway.shell.plane.prefixes.forget(gateway.load)
    events.exact.residency.sweep(1e12)
    await gateway.until(lambda: gateway.shell.plane.prefixes.matched(prefix, [gateway.load]) == [len(prefix)])
    assert _unload(vllm).status_code == 200


async def _ask(gateway, path, body):
    """Sends a request; returns the hashes of its prompt."""
    data = json.dumps(body).encode()
    response = await gateway.client.post(path, content=data, headers={"content-type": "application/json"})
    assert response.status_code == 200, response.text
    return hashing.hashes(prompt.read(inspect(data), path).text, hashing.seed(body["model"]))
