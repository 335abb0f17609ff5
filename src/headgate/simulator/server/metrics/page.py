"""Write the metrics page from readings, with the metric names of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from headgate.simulator.server.metrics.series import Histogram, Reading, Series, counter, gauge, histogram

# vLLM's names; `new` is 0.11 and later, `old` is before that.
OLD_NAMES = {
    "vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc",
    "vllm:prefix_cache_queries": "vllm:gpu_prefix_cache_queries",
    "vllm:prefix_cache_hits": "vllm:gpu_prefix_cache_hits",
    "vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds",
}
NOT_OLD = {
    "vllm:time_per_output_token_seconds",
    "vllm:num_requests_waiting_by_reason",
    "vllm:admission_rejections",
    "vllm:external_prefix_cache_queries",
    "vllm:external_prefix_cache_hits",
    "vllm:nixl_num_failed_transfers",
    "vllm:engine_sleep_state",
}


def vllm_labels(reading: Reading) -> dict[str, str]:
    """Labels of every series."""
    return {"engine": str(reading.rank), "model_name": reading.model_name}


def old_series(reading: Reading) -> Iterator[Series]:
    """Names before 0.11: with `gpu_`, and the first name of the token time."""
    for series in new_series(reading):
        if series.name not in NOT_OLD:
            yield series._replace(name=OLD_NAMES.get(series.name, series.name))


def new_series(reading: Reading) -> Iterator[Series]:
    now = reading.statistics
    yield gauge("vllm:num_requests_running", "Requests in the running batch.", now.running)
    yield gauge("vllm:num_requests_waiting", "Requests in the waiting queue.", now.waiting)
    name = "vllm:num_requests_waiting_by_reason"
    yield gauge(name, "Waiting requests by what they wait for.", now.waiting, reason="capacity")
    yield gauge(name, "Waiting requests by what they wait for.", 0, reason="deferred")
    yield gauge("vllm:kv_cache_usage_perc", "Used share of the KV blocks, 0 to 1.", now.kv_usage)
    yield gauge(
        "vllm:cache_config_info",
        "Size of the KV cache.",
        1,
        block_size=str(reading.config.block_size),
        enable_prefix_caching=str(reading.config.prefix_cache),
        num_gpu_blocks=str(reading.config.kv_blocks),
    )
    yield gauge(
        "vllm:lora_requests_info",
        "Adapters in use, and since when (unix seconds).",
        reading.adapters_changed_unix_s,
        max_lora=str(now.max_adapters),
        running_lora_adapters=",".join(reading.running_adapters),
        waiting_lora_adapters=",".join(reading.waiting_adapters),
    )
    for state, value in (("awake", not reading.asleep), ("weights_offloaded", reading.asleep)):
        yield gauge("vllm:engine_sleep_state", "1 in the state it is in.", value, sleep_state=state)
    yield from _counters(reading)
    yield from _histograms(reading)


def _counters(reading: Reading) -> Iterator[Series]:
    now, timings = reading.statistics, reading.timings
    yield counter("vllm:prompt_tokens", "Prefilled prompt tokens.", timings.prompt_tokens)
    yield counter("vllm:generation_tokens", "Generated tokens.", timings.output_tokens)
    yield counter("vllm:num_preemptions", "Preemptions by recompute.", now.preempted_total)
    yield counter("vllm:prefix_cache_queries", "Tokens looked up.", now.prefix_queries_total)
    yield counter("vllm:prefix_cache_hits", "Tokens found.", now.prefix_hits_total)
    missing = now.prefix_queries_total - now.prefix_hits_total
    found = now.host_hits_total + now.disk_hits_total + now.remote_hits_total + now.received_total
    yield counter("vllm:external_prefix_cache_queries", "Tokens looked up elsewhere.", missing)
    yield counter("vllm:external_prefix_cache_hits", "Tokens found elsewhere.", found)
    again = reading.transfers.get("prompt computed again", 0)
    yield counter("vllm:nixl_num_failed_transfers", "Prompts that another engine did not have.", again)
    name = "vllm:admission_rejections"
    yield counter(name, "Requests that were not taken.", now.refused_total, reason="queue_full")
    if reading.config.draft_tokens:
        yield from _speculation(reading)
    for reason, number in timings.finished_by_reason.items():
        yield counter("vllm:request_success", "Ended requests.", number, finished_reason=reason)


def _speculation(reading: Reading) -> Iterator[Series]:
    """As in vLLM, only if tokens are drafted."""
    now = reading.statistics
    yield counter("vllm:spec_decode_num_drafts", "Drafts.", now.drafts_total)
    yield counter("vllm:spec_decode_num_draft_tokens", "Drafted tokens.", now.draft_tokens_total)
    yield counter("vllm:spec_decode_num_accepted_tokens", "Accepted ones.", now.accepted_tokens_total)
    name = "vllm:spec_decode_num_accepted_tokens_per_pos"
    for position, number in now.accepted_by_position.items():
        yield counter(name, "Accepted tokens by their place in a draft.", number, position=str(position))


def _histograms(reading: Reading) -> Iterator[Series]:
    timings = reading.timings
    for name, documentation, value in (
        ("time_to_first_token_seconds", "Arrival to first token.", timings.ttft),
        ("inter_token_latency_seconds", "Token to next token of a request.", timings.inter_token),
        ("time_per_output_token_seconds", "Token to next token of a request.", timings.inter_token),
        ("request_time_per_output_token_seconds", "Mean time of a request's tokens.", timings.tpot),
        ("e2e_request_latency_seconds", "Arrival to end.", timings.e2e),
        ("request_queue_time_seconds", "Arrival to first step.", timings.queue),
        ("request_inference_time_seconds", "First step to end.", timings.inference),
        ("request_prefill_time_seconds", "First step to first token.", timings.prefill),
        ("request_decode_time_seconds", "First token to end.", timings.decode),
        ("request_prompt_tokens", "Prompt tokens.", timings.prompt_size),
        ("request_generation_tokens", "Output tokens.", timings.output_size),
        ("request_params_max_tokens", "Output tokens asked for.", timings.asked_size),
        # Choices are separate sequences here, so the longest choice of a request is its only one.
        ("request_max_num_generation_tokens", "Output tokens of the longest choice.", timings.output_size),
        # llm-d-inference-sim's name for it.
        ("max_num_generation_tokens", "Output tokens of the longest choice.", timings.output_size),
    ):
        yield histogram(f"vllm:{name}", documentation, value)


# SGLang's names.
ENGINE_TYPES = {"both": "unified", "prefill": "prefill", "decode": "decode"}


def sglang_labels(reading: Reading) -> dict[str, str]:
    return {
        "dp_rank": str(reading.rank),
        "engine_type": ENGINE_TYPES[reading.role],
        "model_name": reading.model_name,
        "pp_rank": "0",
        "tp_rank": "0",
    }


def sglang_series(reading: Reading) -> Iterator[Series]:
    now, timings, config = reading.statistics, reading.timings, reading.config
    size = config.block_size
    hit_rate = now.prefix_hits_total / now.prefix_queries_total if now.prefix_queries_total else 0.0
    yield gauge("sglang:num_running_reqs", "Requests in the running batch.", now.running)
    yield gauge("sglang:num_queue_reqs", "Requests in the waiting queue.", now.waiting)
    yield gauge("sglang:token_usage", "Used share of the KV cache, 0 to 1.", now.kv_usage)
    yield gauge("sglang:num_used_tokens", "Tokens in the KV cache.", now.kv_blocks_used * size)
    yield gauge("sglang:max_total_num_tokens", "Tokens that fit.", config.kv_blocks * size)
    yield gauge("sglang:cache_hit_rate", "Share of prompt tokens that were cached.", hit_rate)
    yield gauge("sglang:num_retracted_reqs", "Requests preempted so far.", now.preempted_total)
    yield gauge(
        "sglang:cache_config_info",
        "Size of the KV cache.",
        1,
        page_size=str(size),
        num_pages=str(config.kv_blocks),
    )
    if config.draft_tokens:
        length = 1 + now.accepted_tokens_total / now.drafts_total if now.drafts_total else 0.0
        rate = now.accepted_tokens_total / now.draft_tokens_total if now.draft_tokens_total else 0.0
        yield gauge("sglang:spec_accept_length", "Tokens of a step with a draft, on average.", length)
        yield gauge("sglang:spec_accept_rate", "Share of drafted tokens that were accepted.", rate)
    yield counter("sglang:prompt_tokens", "Prefilled prompt tokens.", timings.prompt_tokens)
    yield counter("sglang:generation_tokens", "Generated tokens.", timings.output_tokens)
    yield counter("sglang:cached_tokens", "Prompt tokens that were cached.", now.prefix_hits_total)
    yield counter("sglang:num_requests", "Ended requests.", timings.finished_by_reason.total())
    aborted = timings.finished_by_reason["abort"]
    yield counter("sglang:num_aborted_requests", "Requests that were cut.", aborted)
    yield histogram("sglang:time_to_first_token_seconds", "Arrival to first token.", timings.ttft)
    yield histogram("sglang:inter_token_latency_seconds", "Token to next token.", timings.inter_token)
    yield histogram("sglang:e2e_request_latency_seconds", "Arrival to end.", timings.e2e)
    yield histogram("sglang:queue_time_seconds", "Arrival to first step.", timings.queue)
    yield histogram("sglang:prompt_tokens_histogram", "Prompt tokens.", timings.prompt_size)
    yield histogram("sglang:generation_tokens_histogram", "Output tokens.", timings.output_size)


# The names of TensorRT-LLM's server.
def trtllm_labels(reading: Reading) -> dict[str, str]:
    return {"engine_type": "trtllm", "model_name": reading.model_name, "rank": str(reading.rank)}


def trtllm_series(reading: Reading) -> Iterator[Series]:
    now, timings, config = reading.statistics, reading.timings, reading.config
    hit_rate = now.prefix_hits_total / now.prefix_queries_total if now.prefix_queries_total else 0.0
    yield gauge("trtllm_num_requests_running", "Requests in the running batch.", now.running)
    yield gauge("trtllm_num_requests_waiting", "Requests in the waiting queue.", now.waiting)
    yield gauge("trtllm_kv_cache_utilization", "Used share of the KV cache, 0 to 1.", now.kv_usage)
    yield gauge("trtllm_kv_cache_hit_rate", "Share of prompt tokens that were cached.", hit_rate)
    yield gauge("trtllm_kv_cache_tokens_per_block", "Tokens in one block.", config.block_size)
    yield gauge("trtllm_kv_cache_max_blocks", "Blocks of the KV cache.", config.kv_blocks)
    yield gauge("trtllm_kv_cache_used_blocks", "Blocks that requests hold.", now.kv_blocks_used)
    for reason, number in timings.finished_by_reason.items():
        yield counter("trtllm_request_success", "Ended requests.", number, finished_reason=reason)
    yield histogram("trtllm_time_to_first_token_seconds", "Arrival to first token.", timings.ttft)
    yield histogram("trtllm_time_per_output_token_seconds", "Mean time of a request's tokens.", timings.tpot)
    yield histogram("trtllm_e2e_request_latency_seconds", "Arrival to end.", timings.e2e)
    yield histogram("trtllm_request_queue_time_seconds", "Arrival to first step.", timings.queue)


CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

_NAMINGS = {
    ("vllm", "new"): (vllm_labels, new_series),
    ("vllm", "old"): (vllm_labels, old_series),
    ("sglang", "new"): (sglang_labels, sglang_series),
    ("trtllm", "new"): (trtllm_labels, trtllm_series),
}


class MetricsPage(Collector):
    """Renders /metrics with its own registry. `extra` adds series that no engine has."""

    def __init__(
        self,
        engine: str,
        generation: str,
        readings: Callable[[], Iterable[Reading]],
        extra: Callable[[], Iterable[Series]],
    ) -> None:
        self._labels, self._series = _NAMINGS[engine, generation]
        self._readings = readings
        self._extra = extra
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}
        for series in self._all():
            family = families.get(series.name)
            if family is None:
                family = families[series.name] = _family(series)
            values = list(series.labels.values())
            if isinstance(series.value, Histogram):
                family.add_metric(values, series.value.buckets(), series.value.sum)  # type: ignore[attr-defined]
            else:
                family.add_metric(values, series.value)  # type: ignore[attr-defined]
        return families.values()

    def _all(self) -> Iterator[Series]:
        for reading in self._readings():
            labels = self._labels(reading)
            for series in self._series(reading):
                yield series._replace(labels=labels | series.labels)
        yield from self._extra()


def generations(engine: str) -> list[str]:
    """The generations of metric names that an engine has."""
    return [generation for name, generation in _NAMINGS if name == engine]


def _family(series: Series) -> Metric:
    kinds: dict[str, type[Metric]] = {
        "gauge": GaugeMetricFamily,
        "counter": CounterMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    return kinds[series.kind](series.name, series.documentation, labels=list(series.labels))  # type: ignore[call-arg]
