"""SGLang: its metrics page, and how it is launched.

It has a metrics page only with --enable-metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.engines import flags
from headgate.engines.engine import AdapterNames, CacheConfig, Engine, MetricNames
from headgate.engines.flags import Config
from headgate.engines.launch import (
    DEFAULT_PORT,
    INDEX,
    LEADER,
    NO_TLS,
    POD_IP,
    PYTHON,
    Adapters,
    Launch,
    Launcher,
    Program,
    Setup,
)

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

IMAGE = "lmsysorg/sglang:v0.5.23"
SERVER = (PYTHON, "-m", "sglang.launch_server")

_RESERVED: Final = {
    "model": "must not be set: the weights are those of modelURI",
    "model-path": "must not be set: the weights are those of modelURI",
    "config": "must not be set: write the flags of the file here",
    "host": "must not be set: the engine listens on the address of its Pod",
    "ssl-certfile": NO_TLS,
    "ssl-keyfile": NO_TLS,
    "disaggregation-mode": "must not be set: a backend of type SGLang has one worker, which does all",
}
_OF_GROUPS: Final = dict.fromkeys(
    ("nnodes", "node-rank", "dist-init-addr"), "must not be set: it follows from pods"
)
SEVERAL: Final = frozenset(
    (
        *("allowed-media-domains", "bucket-e2e-request-latency", "bucket-inter-token-latency"),
        *("bucket-time-to-first-token", "cuda-graph-bs", "cuda-graph-bs-decode", "cuda-graph-bs-prefill"),
        *("custom-weight-loader", "debug-tensor-dump-layers", "encoder-register-urls", "encoder-urls"),
        *("flashinfer-autotune-skip-ops", "gc-threshold", "generation-tokens-buckets"),
        *("log-requests-target", "lora-paths", "lora-target-modules", "numa-node"),
        *("prefill-delayer-forward-passes-buckets", "prefill-delayer-wait-seconds-buckets"),
        *("prompt-tokens-buckets", "return-aux-hidden-state-layer-ids"),
        *("tokenizer-metrics-allowed-custom-labels", "uvicorn-access-log-exclude-prefixes"),
    )
)
"""Flags that take each item of a list as an argument of its own; other lists are JSON."""
NEGATABLE: Final = frozenset(
    (
        *("dcp-replicate-q-proj", "dllm-fdfo", "enable-decoder-swa-bounded-replay"),
        *("enable-dsa-fused-indexer", "enable-fused-qk-norm-rope", "enable-tf32-matmul"),
        *("enable-tp-lm-head-all-to-all", "experts-shared-outer-loras", "lora-strict-loading"),
        *("mm-enable-dp-encoder", "ple-offload-embedding", "speculative-enable-w4a4-mxfp4-megamoe"),
    )
)
"""Boolean flags with a negation. All others are off unless they are set."""
_SIZES: Final = ("tp-size", "tensor-parallel-size", "tp", "pp-size", "pipeline-parallel-size", "pp")
_MEETING_PORT: Final = 20000
_NAME: Final = "served-model-name"


def launch(setup: Setup) -> Launch:
    """SGLang's server, in one Pod or several.

    It has one name for the model, and does not compare it with that of requests.
    """
    config = Config(setup.config)
    config.reserved(_RESERVED)
    port = config.take_integer("port", DEFAULT_PORT, 1, 65535)
    if config.get(_NAME) is None:
        config.take(_NAME)
        config.default(_NAME, setup.name)
    config.default("enable-metrics", True)
    if setup.adapters:
        config.reserved({"lora-paths": "must not be set besides loraAdapters"})
        config.default("lora-paths", [f"{name}={path}" for name, path in setup.adapters.items()])
    elif setup.change_adapters:
        # Without adapters at the start, it must be told how large they may be.
        config.default("max-lora-rank", 64)
        config.default("lora-target-modules", ["all"])
    if setup.adapters or setup.change_adapters:
        config.default("enable-lora", True)
    if setup.pods > 1:
        _split(config, setup)
    arguments = (
        *("--model-path", setup.weights, "--host", POD_IP, "--port", str(port)),
        *config.flags(_negated, SEVERAL),
    )
    program, follower = Program(SERVER, arguments), None
    if setup.pods > 1:
        group = ("--nnodes", str(setup.pods), "--dist-init-addr", f"{LEADER}:{_MEETING_PORT}")
        program = Program(SERVER, (*arguments, *group, "--node-rank", "0"))
        follower = Program(SERVER, (*arguments, *group, "--node-rank", INDEX))
    return Launch(program=program, follower=follower, port=port, problems=tuple(config.problems))


def _negated(name: str) -> list[str]:
    return flags.prefixed_with_no(name) if name in NEGATABLE else flags.left_out(name)


def _split(config: Config, setup: Setup) -> None:
    config.reserved(_OF_GROUPS)
    if any(size in config for size in _SIZES):
        return
    if setup.devices:
        config.default("tp-size", setup.devices * setup.pods)
    else:
        config.problem(
            "",
            "must say how the model is split over several Pods: set tp-size, or accelerators in "
            "resources.limits",
        )


def adapters(environment: Mapping[str, str]) -> Adapters:
    """Its API for adapters is always open."""
    return Adapters.RUN_TIME


LAUNCHER = Launcher(engine=ENGINE, image=IMAGE, launch=launch, adapters=adapters, in_model_server="SGLang")
