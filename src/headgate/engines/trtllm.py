"""TensorRT-LLM's own server, trtllm-serve: its metrics page."""

from __future__ import annotations

from headgate.engines.engine import CacheConfig, Engine, MetricNames

ENGINE = Engine(
    name="TensorRT-LLM",
    aliases=("trtllm", "trtllm-serve", "tensorrtllm"),
    metrics=MetricNames(
        waiting=("trtllm_num_requests_waiting",),
        running=("trtllm_num_requests_running",),
        kv_usage=("trtllm_kv_cache_utilization",),
        cache=(
            CacheConfig(block_tokens="trtllm_kv_cache_tokens_per_block", blocks="trtllm_kv_cache_max_blocks"),
        ),
    ),
)
