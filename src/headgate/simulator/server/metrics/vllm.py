"""vLLM's names; `new` is 0.11 and later, `old` what was before."""

from collections.abc import Iterator

from headgate.simulator.server.metrics.series import Reading, Series, counter, gauge, histogram

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


def labels(reading: Reading) -> dict[str, str]:
    """Labels that every series has."""
    return {"engine": str(reading.rank), "model_name": reading.model_name}


def old_series(reading: Reading) -> Iterator[Series]:
    """The names before 0.11: `gpu_` ones, and the time of tokens under its first name."""
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
    """As in vLLM, only where tokens are drafted."""
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
        # Choices are sequences of their own here, so the longest of a request is the only one.
        ("request_max_num_generation_tokens", "Output tokens of the longest choice.", timings.output_size),
        # llm-d-inference-sim's name for it.
        ("max_num_generation_tokens", "Output tokens of the longest choice.", timings.output_size),
    ):
        yield histogram(f"vllm:{name}", documentation, value)
