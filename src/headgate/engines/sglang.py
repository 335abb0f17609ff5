"""SGLang. Its page is there only with --enable-metrics."""

from headgate.engines.engine import AdapterCalls, AdapterNames, CacheConfig, Engine, MetricNames

SGLANG = Engine(
    name="SGLang",
    default_port=30000,
    metrics=MetricNames(
        # Some releases wrote an underscore for the colon.
        waiting=("sglang:num_queue_reqs", "sglang_num_queue_reqs"),
        running=("sglang:num_running_reqs", "sglang_num_running_reqs"),
        kv_usage=("sglang:token_usage", "sglang_token_usage"),
        ttft=("sglang:time_to_first_token_seconds", "sglang_time_to_first_token_seconds"),
        # In many releases tokens of a response in one piece leave the scheduler by the fifty, and the first
        # counts only then.
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
        # With priorities, the total has an empty one, and each priority its part.
        partial=("priority",),
    ),
    adapter_calls=AdapterCalls(load_path="/load_lora_adapter", unload_path="/unload_lora_adapter"),
    has_kv_events=True,
)
