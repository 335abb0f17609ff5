"""SGLang: its metrics page, and how it is launched.

It has a metrics page only with --enable-metrics.
"""

from __future__ import annotations

from headgate.engines.engine import AdapterNames, CacheConfig, Engine, MetricNames

ENGINE = Engine(
    name="SGLang",
    metrics=MetricNames(
        # Some releases wrote an underscore instead of the colon.
        waiting=("sglang:num_queue_reqs", "sglang_num_queue_reqs"),
        running=("sglang:num_running_reqs", "sglang_num_running_reqs"),
        kv_usage=("sglang:token_usage", "sglang_token_usage"),
        ttft=("sglang:time_to_first_token_seconds", "sglang_time_to_first_token_seconds"),
        # In many releases, tokens of an unstreamed response leave the scheduler in batches of fifty, and the
        # first is counted only then.
        ttft_is_of_all=False,
        tpot=(
            "sglang:inter_token_latency_seconds",
            "sglang:time_per_output_token_seconds",
            "sglang_inter_token_latency_seconds",
            "sglang_time_per_output_token_seconds",
        ),
        cache=(
            CacheConfig(block_tokens="sglang:page_size", blocks="sglang:num_pages"),
            CacheConfig(family="sglang:cache_config_info", block_tokens="page_size", blocks="num_pages"),
        ),
        adapters=AdapterNames(max="sglang:lora_pool_slots_total"),
        rank="dp_rank",
        replicated=("tp_rank", "pp_rank", "moe_ep_rank"),
        # With priorities, the total has an empty label, and each priority its part.
        partial=("priority",),
    ),
)
