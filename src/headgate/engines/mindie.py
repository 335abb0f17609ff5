"""MindIE: its metrics page, and how it is launched.

The page has a port of its own, and is there only with MIES_SERVICE_MONITOR_MODE.
It has no flags, but a file. The worker's config has the names of that file: whole sections, or single
settings, which are put where they belong. MindIE's coordinator and controller have files of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.engines import flags
from headgate.engines.engine import Engine, MetricNames
from headgate.engines.flags import Config
from headgate.engines.launch import (
    CONFIG_FILE,
    DEFAULT_PORT,
    POD_IP,
    Adapters,
    Launch,
    Launcher,
    Program,
    Setup,
)

IMAGE = "swr.cn-south-1.myhuaweicloud.com/ascendhub/mindie:2.3.0-800I-A2-py311-openeuler24.03-lts"
RANK_TABLE = "GLOBAL_RANK_TABLE_FILE_PATH"
"""The variable with the path of the table of all accelerators, which the controller of MindIE reads."""
MANAGEMENT_PORT, METRICS_PORT = 1026, 1027
ENGINE = Engine(
    name="MindIE",
    metrics=MetricNames(
        waiting=("num_requests_waiting",),
        running=("num_requests_running",),
        kv_usage=("npu_cache_usage_perc",),
        ttft=("time_to_first_token_seconds",),
        tpot=("time_per_output_token_seconds",),
        port=METRICS_PORT,
    ),
)

_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "ServerConfig": ("ServerConfig",),
    "BackendConfig": ("BackendConfig",),
    "ModelDeployConfig": ("BackendConfig", "ModelDeployConfig"),
    "ModelConfig": ("BackendConfig", "ModelDeployConfig", "ModelConfig"),
    "ScheduleConfig": ("BackendConfig", "ScheduleConfig"),
    "LogConfig": ("LogConfig",),
}
"""Where each section is. ModelConfig is a list of one."""

_SETTINGS: Final[Mapping[str, str]] = {
    "ServerConfig": (
        "maxLinkNum fullTextEnabled openAiSupport tokenTimeout e2eTimeout maxRequestLength "
        "interCommTLSEnabled interCommPort distDPServerEnabled"
    ),
    "BackendConfig": "modelInstanceNumber npuDeviceIds tokenizerProcessNumber",
    "ModelDeployConfig": "maxSeqLen maxInputTokenLen truncation",
    "ModelConfig": (
        "modelInstanceType worldSize cpuMemSize npuMemSize backendType trustRemoteCode "
        "async_scheduler_wait_time kv_trans_timeout kv_link_timeout plugin_params"
    ),
    "ScheduleConfig": (
        "templateType templateName cacheBlockSize maxPrefillBatchSize maxPrefillTokens prefillTimeMsPerReq "
        "prefillPolicyType decodeTimeMsPerReq decodePolicyType maxBatchSize maxIterTimes maxPreemptCount "
        "supportSelectBatch maxQueueDelayMicroseconds maxFirstTokenWaitTime"
    ),
}
_SECTION: Final = {name: section for section, found in _SETTINGS.items() for name in found.split()}

_DERIVED: Final[Mapping[tuple[str, str], str]] = {
    ("ModelConfig", "modelName"): "the engine serves the model by the name of the Model",
    ("ModelConfig", "modelWeightPath"): "the weights are those of modelURI",
    ("ServerConfig", "ipAddress"): "the engine listens on the address of its Pod",
    ("ServerConfig", "managementIpAddress"): "the engine listens on the address of its Pod",
    ("ServerConfig", "port"): "set port beside the sections",
    ("ServerConfig", "metricsPort"): "metrics are read from port 1027",
    ("ServerConfig", "httpsEnabled"): "the gateway reaches engines of Models by HTTP",
    ("ServerConfig", "inferMode"): "it follows from the type of the backend",
}

# The environment scripts of the image are for bash. The file is copied, because MindIE takes neither links
# nor files that others may read.
_START: Final = """\\
trap 'exit 143' TERM
for each in /usr/local/Ascend/ascend-toolkit/set_env.sh /usr/local/Ascend/nnal/atb/set_env.sh \\
    /usr/local/Ascend/atb-models/set_env.sh /usr/local/Ascend/mindie/set_env.sh; do
  if [ -f "$each" ]; then source "$each"; fi
done
cd "${MIES_INSTALL_PATH:-/usr/local/Ascend/mindie/latest/mindie-service}" || exit 1
umask 027
cp -L "$0" "conf/headgate.json" || exit 1
export MIES_CONFIG_JSON_PATH="$PWD/conf/headgate.json"
export MINDIE_MS_CONTROLLER_CONFIG_FILE_PATH="$PWD/conf/headgate.json"
export MINDIE_MS_COORDINATOR_CONFIG_FILE_PATH="$PWD/conf/headgate.json"
exec "$@"
""".replace("\\\n    ", "")


def launch(setup: Setup) -> Launch:
    """MindIE's server, or the controller or coordinator of a disaggregated backend."""
    match setup.role:
        case "controller":
            return _controller(setup)
        case "coordinator":
            return _coordinator(setup)
    return _server(setup)


def _server(setup: Setup) -> Launch:
    config = Config(setup.config, as_flags=False)
    port = config.take_integer("port", DEFAULT_PORT, 1024, 65535)
    document = _server_defaults(setup, port)
    for name, value in config.remaining():
        _put(document, config, name, value)
    environment = {
        "MIES_CONTAINER_IP": POD_IP,
        "MIES_CONTAINER_MANAGEMENT_IP": POD_IP,
        "MIES_SERVICE_MONITOR_MODE": "1",
        "MINDIE_LOG_TO_STDOUT": "1",
    }
    return Launch(
        program=_program("./bin/mindieservice_daemon"),
        environment=environment,
        port=port,
        health_port=MANAGEMENT_PORT,
        health_path="/v2/health/ready",
        file=_text(document),
        # Requests of a disaggregated backend come from its coordinator.
        takes_requests=setup.role == "server",
        problems=tuple(config.problems),
    )


def _server_defaults(setup: Setup, port: int) -> dict[str, Any]:
    devices = setup.devices or 1
    model = {
        "modelInstanceType": "Standard",
        "modelName": setup.name,
        "modelWeightPath": setup.weights,
        "worldSize": devices,
        "cpuMemSize": 5,
        "npuMemSize": -1,
        "backendType": "atb",
        "trustRemoteCode": False,
    }
    server = {
        "port": port,
        "managementPort": MANAGEMENT_PORT,
        "metricsPort": METRICS_PORT,
        "allowAllZeroIpListening": False,
        "maxLinkNum": 1000,
        "httpsEnabled": False,
        "inferMode": "standard" if setup.role == "server" else "dmi",
        "interCommTLSEnabled": False,
        "openAiSupport": "vllm",
    }
    backend = {
        "backendName": "mindieservice_llm_engine",
        "modelInstanceNumber": 1,
        "npuDeviceIds": [list(range(devices))],
        "tokenizerProcessNumber": 8,
        "multiNodesInferEnabled": False,
        "ModelDeployConfig": {"maxSeqLen": 2560, "maxInputTokenLen": 2048, "ModelConfig": [model]},
        "ScheduleConfig": {
            "templateType": "Standard",
            "templateName": "Standard_LLM",
            "cacheBlockSize": 128,
            "maxPrefillBatchSize": 50,
            "maxPrefillTokens": 8192,
            "prefillTimeMsPerReq": 150,
            "prefillPolicyType": 0,
            "decodeTimeMsPerReq": 50,
            "decodePolicyType": 0,
            "maxBatchSize": 200,
            "maxIterTimes": 512,
            "maxPreemptCount": 0,
            "supportSelectBatch": False,
            "maxQueueDelayMicroseconds": 5000,
        },
    }
    return {"Version": "1.0.0", "ServerConfig": server, "BackendConfig": backend, "LogConfig": {}}


def _put(document: dict[str, Any], config: Config, name: str, value: object) -> None:
    """Put a setting, or the settings of a section, into the document. null leaves a setting out."""
    if name in _PATHS:
        inside = value[0] if isinstance(value, list) and len(value) == 1 and name == "ModelConfig" else value
        if not isinstance(inside, dict):
            config.problem(name, f"is {flags.shown(value)}; it must be an object")
            return
        for each, inner in inside.items():
            if each in _PATHS:
                _put(document, config, each, inner)
            else:
                _set(document, config, name, each, inner)
    elif name in _SECTION:
        _set(document, config, _SECTION[name], name, value)
    else:
        known = ", ".join(["port", *_PATHS])
        config.problem(name, f"is no setting of MindIE that is known here; put it into its section: {known}")


def _set(document: dict[str, Any], config: Config, section: str, name: str, value: object) -> None:
    why = _DERIVED.get((section, name))
    if why is not None:
        config.problem(section, f"has {name}, which must not be set: {why}")
        return
    place: Any = document
    for step in _PATHS[section]:
        place = place[step]
    target: dict[str, Any] = place[0] if section == "ModelConfig" else place
    if value is None:
        target.pop(name, None)
    else:
        target[name] = value


def _controller(setup: Setup) -> Launch:
    """The controller decides which servers prefill and decode, in the proportion of the workers."""
    config = Config(setup.config, as_flags=False)
    document = {
        "allow_all_zero_ip_listening": False,
        "deploy_mode": "pd_separate",
        "default_p_rate": setup.shares.get("prefill", 1),
        "default_d_rate": setup.shares.get("decode", 1),
        "tls_config": {"request_coordinator_tls_enable": False, "request_server_tls_enable": False},
        **dict(config.remaining()),
    }
    return Launch(
        program=_program("./bin/ms_controller"),
        port=MANAGEMENT_PORT,
        health_path="/v1/health",
        file=_text(document),
        takes_requests=False,
        reads_weights=False,
        problems=tuple(config.problems),
    )


def _coordinator(setup: Setup) -> Launch:
    config = Config(setup.config, as_flags=False)
    port = config.take_integer("port", DEFAULT_PORT, 1024, 65535)
    document = {
        # The addresses of the Pod are arguments, which take precedence.
        "http_config": {
            "allow_all_zero_ip_listening": False,
            "predict_ip": "127.0.0.1",
            "predict_port": str(port),
            "manage_ip": "127.0.0.1",
            "manage_port": str(MANAGEMENT_PORT),
        },
        "digs_scheduler_config": {"deploy_mode": "pd_separate", "scheduler_type": "digs_scheduler"},
        "tls_config": dict.fromkeys(
            (
                "controller_server_tls_enable",
                "request_server_tls_enable",
                "mindie_client_tls_enable",
                "mindie_mangment_tls_enable",
            ),
            False,
        ),
        **dict(config.remaining()),
    }
    return Launch(
        program=_program("./bin/ms_coordinator", POD_IP, str(port), POD_IP, str(MANAGEMENT_PORT)),
        port=port,
        health_port=MANAGEMENT_PORT,
        health_path="/v1/health",
        file=_text(document),
        reads_weights=False,
        problems=tuple(config.problems),
    )


def _program(*words: str) -> Program:
    return Program(("bash", "-c", _START, CONFIG_FILE), words)


def _text(document: Mapping[str, object]) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def adapters(environment: Mapping[str, str]) -> Adapters:
    return Adapters.NEVER


LAUNCHER = Launcher(engine=ENGINE, image=IMAGE, launch=launch, adapters=adapters, runs_in_groups=False)
