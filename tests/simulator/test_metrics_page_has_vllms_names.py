import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headgate.simulator.model import StepCosts
from headgate.simulator.server.metrics.series import Histogram, token_count_buckets

GAUGES = [
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "cache_config_info",
    "lora_requests_info",
]
COUNTERS = [
    "prompt_tokens_total",
    "generation_tokens_total",
    "num_preemptions_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "request_success_total",
]
HISTOGRAMS = [
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "time_per_output_token_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_inference_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "request_params_max_tokens",
    "request_max_num_generation_tokens",
]


def samples(page: str) -> dict[str, float]:
    """Samples by name, the labels that every series has left out; strict parsing."""
    found = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("model_name") == "tiny"
            assert labels.pop("engine") == "0"
            rest = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
            found[sample.name.removeprefix("vllm:") + (f"{{{rest}}}" if rest else "")] = sample.value
    return found


async def test_every_name_is_there_before_the_first_request(serve):
    """A reader finds all series of an idle engine, at zero where they count."""
    async with serve() as server:
        page = samples((await server.client.get("/metrics")).text)
    names = {name.partition("{")[0] for name in page}
    assert {*GAUGES, *COUNTERS} <= names
    for name in HISTOGRAMS:
        assert page[f"{name}_count"] == page[f"{name}_bucket{{le=+Inf}}"] == 0
    assert page["cache_config_info{block_size=16,enable_prefix_caching=True,num_gpu_blocks=1048576}"] == 1


async def test_counts_and_times_are_on_the_page(serve, small_engine):
    """What the model counted and measured, each under its name; steps take no less than their costs."""
    costs = StepCosts(
        base_s=0.01, per_decode_sequence_s=0.001, per_kv_token_s=0.0001, per_prefill_token_s=0.0005
    )
    body = {"model": "tiny", "prompt": [1] * 10, "max_tokens": 5}
    async with serve(engine=small_engine(costs=costs)) as server:
        await server.client.post("/v1/completions", json=body)
        page = samples((await server.client.get("/metrics")).text)
        [measured] = [engine.timings for engine in server.live.engines]
    ttft_s = 0.01 + 10 * 0.0005
    decode_s = sum(0.011 + tokens * 0.0001 for tokens in range(10, 14))
    assert page["time_to_first_token_seconds_sum"] == measured.ttft.sum > ttft_s * 0.999
    assert page["request_prefill_time_seconds_sum"] == measured.prefill.sum > ttft_s * 0.999
    assert page["request_decode_time_seconds_sum"] == measured.decode.sum > decode_s * 0.999
    assert page["inter_token_latency_seconds_sum"] == measured.inter_token.sum > decode_s * 0.999
    assert page["inter_token_latency_seconds_count"] == 4
    assert (page["prompt_tokens_total"], page["generation_tokens_total"]) == (10, 5)
    assert page["request_success_total{finished_reason=length}"] == 1


async def test_gauges_show_the_batch_while_it_runs(serve, eventually, slow_engine):
    """Running, waiting and KV usage are those of the step under way."""
    body = {"model": "tiny", "prompt": [1] * 160, "max_tokens": 1}
    async with serve(engine=slow_engine) as server, asyncio.TaskGroup() as group:
        first = group.create_task(server.client.post("/v1/completions", json=body))
        await eventually(lambda: server.live.statistics().running == 1)
        second = group.create_task(server.client.post("/v1/completions", json=body))
        await eventually(lambda: server.live.statistics().waiting == 1)
        page = samples((await server.client.get("/metrics")).text)
        first.cancel()
        second.cancel()
    assert (page["num_requests_running"], page["num_requests_waiting"]) == (1, 1)
    assert page["kv_cache_usage_perc"] == pytest.approx(10 / 1_048_576)


def test_a_value_on_a_bound_counts_below_it():
    """Buckets are cumulative and include their bound, as Prometheus defines `le`."""
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 2.5):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2), ("2.0", 2), ("+Inf", 3)]
    assert histogram.sum == 4.0


def test_token_buckets_end_with_the_context():
    """1-2-5 series up to the model's context."""
    assert token_count_buckets(64) == (1, 2, 5, 10, 20, 50)
