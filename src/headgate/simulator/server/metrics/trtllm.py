"""The names of TensorRT-LLM's server."""

from collections.abc import Iterator

from headgate.simulator.server.metrics.series import Reading, Series, counter, gauge, histogram


def labels(reading: Reading) -> dict[str, str]:
    return {"engine_type": "trtllm", "model_name": reading.model_name, "rank": str(reading.rank)}


def series(reading: Reading) -> Iterator[Series]:
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
