import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate.simulator.server import ServerSettings

BODY = {"model": "tiny", "prompt": "x" * 400, "max_tokens": 3}


async def page(server):
    """Samples by name, summed over their labels."""
    await server.client.post("/v1/completions", json=BODY)
    await server.client.post("/v1/completions", json=BODY)
    text = (await server.client.get("/metrics")).text
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append(sample)
    return samples


async def test_sglangs_names(serve):
    """Queue, batch, token usage and page size as SGLang calls them, and nothing of vLLM's."""
    async with serve(api="sglang") as server:
        samples = await page(server)
    assert not any(name.startswith("vllm") for name in samples)
    [running] = samples["sglang:num_running_reqs"]
    assert running.labels == {
        "dp_rank": "0",
        "engine_type": "unified",
        "model_name": "tiny",
        "pp_rank": "0",
        "tp_rank": "0",
    }
    assert samples["sglang:cache_config_info"][0].labels["page_size"] == "16"
    assert samples["sglang:cached_tokens_total"][0].value == 96
    assert samples["sglang:cache_hit_rate"][0].value == pytest.approx(0.48)
    for name in ("num_queue_reqs", "token_usage", "time_to_first_token_seconds_count"):
        assert f"sglang:{name}" in samples


async def test_tensorrts_names(serve):
    """The gauges and histograms that trtllm-serve has."""
    async with serve(api="trtllm") as server:
        samples = await page(server)
    assert not any(name.startswith("vllm") for name in samples)
    assert samples["trtllm_kv_cache_tokens_per_block"][0].value == 16
    assert samples["trtllm_kv_cache_max_blocks"][0].value == 1_048_576
    assert samples["trtllm_request_success_total"][1].value == 2
    for name in ("num_requests_waiting", "num_requests_running", "kv_cache_utilization"):
        assert f"trtllm_{name}" in samples


async def test_vllms_former_names(serve):
    """Before 0.11: `gpu_` names, and one name for the time of a token."""
    async with serve(metrics_generation="old") as server:
        samples = await page(server)
    assert {"vllm:gpu_cache_usage_perc", "vllm:gpu_prefix_cache_hits_total"} < samples.keys()
    assert samples["vllm:time_per_output_token_seconds_count"][0].value == 4
    for name in ("kv_cache_usage_perc", "inter_token_latency_seconds_count", "prefix_cache_hits_total"):
        assert f"vllm:{name}" not in samples


async def test_each_rank_has_its_series(serve):
    """Two ranks are two series of each name, and share the requests."""
    async with serve(data_parallel_size=2) as server:
        for rank in ("0", "1", "1"):
            header = {"x-data-parallel-rank": rank}
            await server.client.post("/v1/completions", json=BODY, headers=header)
        text = (await server.client.get("/metrics")).text
        wrong = await server.client.post("/v1/completions", json=BODY, headers={"x-data-parallel-rank": "2"})
    assert 'vllm:generation_tokens_total{engine="0",model_name="tiny"} 3.0' in text
    assert 'vllm:generation_tokens_total{engine="1",model_name="tiny"} 6.0' in text
    assert wrong.status_code == 400


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"api": "sglang", "metrics_generation": "old"}, "metrics_generation"),
        ({"data_parallel_size": 0}, "data_parallel_size"),
        ({"models": ("a", "a")}, "lora_modules"),
    ],
)
def test_wrong_settings_are_refused(fast, settings, field):
    """The message begins with the field."""
    with pytest.raises(ValueError, match=f"^{field}: "):
        ServerSettings(engine=fast(), **settings)
