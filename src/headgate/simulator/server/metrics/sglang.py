"""SGLang's names."""

from collections.abc import Iterator

from headgate.simulator.server.metrics.series import Reading, Series, counter, gauge, histogram

ENGINE_TYPES = {"both": "unified", "prefill": "prefill", "decode": "decode"}


def labels(reading: Reading) -> dict[str, str]:
    return {
        "dp_rank": str(reading.rank),
        "engine_type": ENGINE_TYPES[reading.role],
        "model_name": reading.model_name,
        "pp_rank": "0",
        "tp_rank": "0",
    }


def series(reading: Reading) -> Iterator[Series]:
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
