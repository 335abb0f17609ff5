"""The known engines, and the lookup by the name in a ModelServer or by a label of its Pod."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.engines.engine import AdapterNames, CacheConfig, Engine, MetricNames

VLLM = Engine(
    name="vLLM",
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
)

# SGLang. It has a metrics page only with --enable-metrics.
SGLANG = Engine(
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

# TensorRT-LLM's own server, trtllm-serve.
TRTLLM = Engine(
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

# Any other server with OpenAI's API: its metrics page is unknown, and only its list of models is read.
OPENAI = Engine(name="OpenAI")

POD_LABELS = ("llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type")
"""The labels by which a Pod names its engine; the first one present counts."""

KNOWN = (
    VLLM,
    SGLANG,
    TRTLLM,
    OPENAI,
)

_BY_NAME = {name.lower(): engine for engine in KNOWN for name in (engine.name, *engine.aliases)}


def named(name: str) -> Engine:
    """The engine of that name, in any case; an unknown name is any server with OpenAI's API."""
    return _BY_NAME.get(name.lower(), OPENAI)


def of_pod(labels: Mapping[str, str], default: str) -> Engine:
    """The engine of a Pod: its own label takes precedence over `default`, the engine of its pool."""
    for label in POD_LABELS:
        name = labels.get(label)
        if name:
            return named(name)
    return named(default)
