"""GET /metrics is the engine's page, with the names that every engine has."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

ASKED = {"model": "tiny", "prompt": "x", "max_tokens": 5, "ignore_eos": True}


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


@pytest.mark.parametrize(("name", "prefix"), [("vllm", "vllm:"), ("sglang", "sglang:")])
async def test_samples_are_repeated_under_unified_names(engine, sidecar, name, prefix):
    """With their labels and values; histograms with all of their series. The engine's own names stay."""
    served = await engine("--engine", name)
    beside = await sidecar(served, "--engine", name)
    assert (await served.client.post("/v1/completions", json=ASKED)).status_code == 200
    page = await beside.client.get("/metrics")
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = families(page.text)
    tokens = found["kthena:generation_tokens"]
    assert tokens.type == "counter"
    assert sum(sample.value for sample in tokens.samples) == 5
    for unified in ("time_to_first_token_seconds", "e2e_request_latency_seconds"):
        copy, original = found[f"kthena:{unified}"], found[prefix + unified]
        assert copy.type == original.type == "histogram"
        assert [s.name.partition(":")[2] for s in copy.samples] == [
            s.name.partition(":")[2] for s in sorted(original.samples, key=lambda s: _order(s.name))
        ]
        assert {s.value for s in copy.samples if s.name.endswith("_count")} == {1}
    assert found["kthena:time_per_output_token_seconds"].type == "histogram"
    assert {s.value for s in found["kthena:num_requests_waiting"].samples} == {0}
    assert found["headgate_runtime_engine_up"].samples[0].value == 1


def _order(name):
    return ("_bucket", "_sum", "_count").index(f"_{name.rpartition('_')[2]}")


async def test_the_page_of_an_engine_that_is_down_says_so(engine, sidecar, eventually):
    """It is a page, with a reason in a comment; the next engine is read again."""
    served = await engine()
    beside = await sidecar(served)
    await served.kill()
    page = await beside.client.get("/metrics")
    assert page.status_code == 200
    assert families(page.text)["headgate_runtime_engine_up"].samples[0].value == 0
    assert f"# The engine at http://127.0.0.1:{served.port} cannot be connected to" in page.text
    await engine(port=served.port)

    async def is_up():
        return "headgate_runtime_engine_up 1" in (await beside.client.get("/metrics")).text

    await eventually(is_up)
