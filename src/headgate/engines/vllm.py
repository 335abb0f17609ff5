"""vLLM: its metrics page, and how it is launched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.engines import flags, vllm_transfer
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

IMAGE = "vllm/vllm-openai:v0.32.0"
SERVER = (PYTHON, "-m", "vllm.entrypoints.openai.api_server")
RUN_TIME_ADAPTERS = "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
"""The variable that opens vLLM's API for adapters."""

_RESERVED: Final = {
    "model": "must not be set: the weights are those of modelURI",
    "config": "must not be set: write the flags of the file here",
    "host": "must not be set: the engine listens on the address of its Pod",
    "uds": "must not be set: the engine listens on the address of its Pod",
    "ssl-certfile": NO_TLS,
    "ssl-keyfile": NO_TLS,
}
_OF_GROUPS: Final = dict.fromkeys(
    ("nnodes", "node-rank", "master-addr", "headless"), "must not be set: it follows from pods"
)
SEVERAL: Final = frozenset(
    (
        *("allowed-media-domains", "api-key", "collect-detailed-traces", "cpu-offload-params"),
        *("cudagraph-capture-sizes", "ignore-patterns", "kv-cache-dtype-skip-layers", "logits-processors"),
        *("lora-modules", "lora-target-modules", "numa-bind-cpus", "numa-bind-nodes", "offload-params"),
        *("served-model-name", "sleep-preserve-parameter-names"),
    )
)
"""Flags that take each item of a list as an argument of its own; other lists are JSON."""
APPENDED: Final = frozenset({"middleware"})
"""Flags that are given once for each item of a list."""
ONLY_SET: Final = frozenset(
    (
        *("aggregate-engine-logging", "data-parallel-multi-port-external-lb", "disable-log-stats"),
        *("grpc", "headless"),
    )
)
"""Boolean flags without a negation, and off unless they are set."""
_SIZES: Final = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
_EXECUTOR: Final = "distributed-executor-backend"

# Each Pod of a worker joins a Ray cluster, and the first one runs the server once all are there. What runs
# then is passed as arguments: nothing of it is parsed by the shell.
_RAY_HEAD: Final = """\
trap 'exit 143' TERM
ray start --head --port=6379 --node-ip-address="$POD_IP" || exit 1
until python3 -c 'import os, ray, sys
ray.init(address="auto", logging_level="ERROR")
alive = sum(node["Alive"] for node in ray.nodes())
print(alive, "of", os.environ["LWS_GROUP_SIZE"], "Pods have joined", flush=True)
sys.exit(alive < int(os.environ["LWS_GROUP_SIZE"]))'
do sleep 2; done
exec "$@"
"""
_RAY_WORKER: Final = """\
trap 'exit 143' TERM
until ray health-check --address "$LWS_LEADER_ADDRESS:6379"; do sleep 2; done
exec ray start --address="$LWS_LEADER_ADDRESS:6379" --node-ip-address="$POD_IP" --block
"""


def launch(setup: Setup) -> Launch:
    """vLLM's server, with the KV transfer of its role, in one Pod or several."""
    config = Config(setup.config)
    config.reserved(_RESERVED)
    port = config.take_integer("port", DEFAULT_PORT, 1, 65535)
    names = flags.names(config.take("served-model-name"), setup.name)
    if setup.adapters or setup.change_adapters:
        config.default("enable-lora", True)
    if setup.adapters:
        config.reserved({"lora-modules": "must not be set besides loraAdapters"})
        config.default("lora-modules", [f"{name}={path}" for name, path in setup.adapters.items()])
    connector, environment = "", dict[str, str]()
    if setup.role != "server":
        connector, environment = vllm_transfer.derive(config, setup)
    with_ray = _parallel(config, setup) if setup.pods > 1 else False
    arguments = (
        *("--model", setup.weights, "--host", POD_IP, "--port", str(port)),
        *("--served-model-name", *names),
        *config.flags(_negated, SEVERAL, APPENDED),
    )
    program, follower = Program(SERVER, arguments), None
    if with_ray:
        program = Program(("sh", "-c", _RAY_HEAD, "sh"), (*SERVER, *arguments))
        follower = Program(("sh", "-c", _RAY_WORKER))
        environment["VLLM_HOST_IP"] = POD_IP
    elif setup.pods > 1:
        group = ("--nnodes", str(setup.pods), "--master-addr", LEADER)
        program = Program(SERVER, (*arguments, *group, "--node-rank", "0"))
        follower = Program(SERVER, (*arguments, *group, "--node-rank", INDEX, "--headless"))
    return Launch(
        program=program,
        follower=follower,
        environment=environment,
        port=port,
        connector=connector,
        problems=tuple(config.problems),
    )


def _parallel(config: Config, setup: Setup) -> bool:
    """Whether the Pods of one worker find each other by Ray; vLLM itself can also do it (`mp`)."""
    config.reserved(_OF_GROUPS)
    config.default(_EXECUTOR, "ray")
    executor = config.get(_EXECUTOR)
    if executor not in ("ray", "mp"):
        config.problem(_EXECUTOR, f"is {flags.shown(executor)}; several Pods need ray or mp")
    if not any(size in config for size in _SIZES):
        if setup.devices:
            config.default("tensor-parallel-size", setup.devices)
            config.default("pipeline-parallel-size", setup.pods)
        else:
            config.problem(
                "",
                "must say how the model is split over several Pods: set tensor-parallel-size and "
                "pipeline-parallel-size, or accelerators in resources.limits",
            )
    return executor == "ray"


def _negated(name: str) -> list[str]:
    return flags.left_out(name) if name in ONLY_SET else flags.prefixed_with_no(name)


def adapters(environment: Mapping[str, str]) -> Adapters:
    """vLLM takes "1" and "true" in any case."""
    allowed = environment.get(RUN_TIME_ADAPTERS, "").strip().lower() in ("1", "true")
    return Adapters.RUN_TIME if allowed else Adapters.AT_START


LAUNCHER = Launcher(engine=ENGINE, image=IMAGE, launch=launch, adapters=adapters)
