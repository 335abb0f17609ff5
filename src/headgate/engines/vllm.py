"""vLLM."""

from headgate.engines.engine import AdapterCalls, AdapterNames, CacheConfig, Engine, MetricNames

VLLM = Engine(
    name="vLLM",
    default_port=8000,
    metrics=MetricNames(
        waiting=("vllm:num_requests_waiting",),
        running=("vllm:num_requests_running",),
        kv_usage=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        ttft=("vllm:time_to_first_token_seconds",),
        ttft_is_of_all=True,
        tpot=("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        cache=(
            CacheConfig(family="vllm:cache_config_info", block_tokens="block_size", blocks="num_gpu_blocks"),
        ),
        adapters=AdapterNames(
            family="vllm:lora_requests_info",
            running="running_lora_adapters",
            waiting="waiting_lora_adapters",
            max="max_lora",
        ),
        rank="engine",
    ),
    # Only with VLLM_ALLOW_RUNTIME_LORA_UPDATING=true; otherwise these paths are 404.
    adapter_calls=AdapterCalls(load_path="/v1/load_lora_adapter", unload_path="/v1/unload_lora_adapter"),
    has_kv_events=True,
)
