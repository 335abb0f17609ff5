"""vLLM: its metrics page, and how it is launched."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.engines import flags
from headgate.engines.engine import AdapterNames, CacheConfig, Engine, MetricNames
from headgate.engines.flags import Config
from headgate.engines.launch import DEFAULT_PORT, POD_IP, Adapters, Launch, Launcher, Setup

ENGINE = Engine(
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

IMAGE = "vllm/vllm-openai:v0.11.0"
RUN_TIME_ADAPTERS = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
"""The variable that opens vLLM's API for adapters."""

_RESERVED = {
    "model": "is not for the config: the weights are those of modelURI",
    "host": "is not for the config: the engine listens on the address of its Pod",
}
_REPEATED = ("lora-modules", "middleware", "allowed-origins", "served-model-name", "api-key")
"""Flags that take each item of a list as an argument."""


def launch(setup: Setup) -> Launch:
    """The command of one Pod of vLLM's server."""
    config = Config(setup.config)
    config.reserved(_RESERVED)
    port = config.take_integer("port", DEFAULT_PORT, 1, 65535)
    names = flags.names(config.take("served-model-name"), setup.names)
    if setup.with_adapters:
        config.default("enable-lora", True)
    if setup.adapters:
        config.default("lora-modules", [f"{name}={path}" for name, path in setup.adapters.items()])
    command = (
        *("python3", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", setup.weights, "--host", POD_IP, "--port", str(port)),
        *("--served-model-name", *names),
        *config.flags(flags.prefixed_with_no, _REPEATED),
    )
    return Launch(command=command, port=port, problems=tuple(config.problems))


def adapters(environment: Mapping[str, str]) -> Adapters:
    """vLLM takes "1" and "true" in any case."""
    allowed = environment.get(RUN_TIME_ADAPTERS, "").strip().lower() in ("1", "true")
    return Adapters.RUN_TIME if allowed else Adapters.AT_START


LAUNCHER = Launcher(engine=ENGINE, image=IMAGE, launch=launch, adapters=adapters)
