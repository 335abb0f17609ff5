"""Each engine is started with the flags that its worker needs."""

import json
import os
import subprocess
import sys

import pytest

from headgate.engines import known
from headgate.engines.launch import Adapters, Setup

VLLM, SGLANG, MINDIE = (known.launcher(each) for each in ("vLLM", "SGLang", "MindIE"))


def setup(**fields):
    return Setup(**{"weights": "/w", "name": "m", **fields})


def flag(launch, name):
    """The values of a flag."""
    arguments = [*launch.program.command, *launch.program.args]
    place = arguments.index(f"--{name}") + 1
    rest = arguments[place:]
    ends = [index for index, argument in enumerate(rest) if argument.startswith("--")]
    return rest[: ends[0]] if ends else rest


@pytest.mark.parametrize("launcher", [VLLM, SGLANG], ids=["vLLM", "SGLang"])
def test_an_engine_listens_on_the_address_of_its_pod(launcher):
    """Several Pods of one machine may have addresses of one network."""
    launch = launcher.launch(setup(config={"port": "9000"}))
    assert flag(launch, "host") == ["$(POD_IP)"]
    assert flag(launch, "port") == ["9000"]
    assert launch.port == 9000


def test_vllm_keeps_a_name_that_stays_when_its_own_changes():
    """Requests are sent with that name, so that Pods of every revision know it."""
    launch = VLLM.launch(setup(config={"served-model-name": ["big", "bigger"]}))
    assert flag(launch, "served-model-name") == ["big", "bigger", "m"]
    assert flag(VLLM.launch(setup()), "served-model-name") == ["m"]


def test_flags_that_follow_from_the_model_are_refused():
    """They would contradict it."""
    problems = VLLM.launch(setup(config={"model": "x", "host": "::", "port": 0})).problems
    assert [problem.key for problem in problems] == ["model", "host", "port"]
    assert "1 to 65535" in problems[-1].message


@pytest.mark.parametrize(("launcher", "name"), [(VLLM, "lora-modules"), (SGLANG, "lora-paths")])
def test_adapters_are_listed_in_one_place(launcher, name):
    """Those of the config would hide those of the Model."""
    config = {name: ["x=/x"]}
    (problem,) = launcher.launch(setup(config=config, adapters={"a": "/a"})).problems
    assert problem.key == name
    assert not launcher.launch(setup(config=config)).problems


def test_booleans_are_negated_only_where_the_engine_can():
    """Most of SGLang's can only be set, as some of vLLM's."""
    config = {"enable-prefix-caching": False, "disable-log-stats": False, "enforce-eager": True}
    arguments = VLLM.launch(setup(config=config)).program.args
    assert "--no-enable-prefix-caching" in arguments
    assert "--enforce-eager" in arguments
    assert not any("log-stats" in argument for argument in arguments)
    arguments = SGLANG.launch(setup(config={"enable-mixed-chunk": False, "log-requests": True})).program.args
    assert "--log-requests" in arguments
    assert not any("mixed-chunk" in argument for argument in arguments)
    assert (
        "--no-lora-strict-loading" in SGLANG.launch(setup(config={"lora_strict_loading": False})).program.args
    )


def test_adapters_are_loaded_at_start_or_later():
    """vLLM's API for it is open only with a variable; SGLang's always is, and needs sizes."""
    launch = VLLM.launch(setup(adapters={"a": "/w/a", "b": "/w/b"}))
    assert flag(launch, "lora-modules") == ["a=/w/a", "b=/w/b"]
    assert flag(launch, "enable-lora") == []
    assert "--lora-modules" not in VLLM.launch(setup(change_adapters=True)).program.args
    launch = SGLANG.launch(setup(change_adapters=True))
    assert flag(launch, "lora-target-modules") == ["all"]
    assert VLLM.adapters({}) is Adapters.AT_START
    assert VLLM.adapters({"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}) is Adapters.RUN_TIME
    assert SGLANG.adapters({}) is Adapters.RUN_TIME
    assert MINDIE.adapters({}) is Adapters.NEVER


@pytest.mark.parametrize(
    ("given", "connector", "roles"),
    [
        (None, "nixl", ("kv_both", "kv_both")),
        ({"kv_connector": "MooncakeConnector"}, "mooncake", ("kv_producer", "kv_consumer")),
        ('{"kv_connector": "LMCacheConnectorV1"}', "lmcache", ("kv_producer", "kv_consumer")),
        ({"kv_connector": "SharedStorageConnector"}, "http", ("kv_both", "kv_both")),
    ],
)
def test_transfer_of_the_kv_cache_is_derived(given, connector, roles):
    """The roles of a connector follow from the worker; without one, it is NIXL."""
    config = {} if given is None else {"kv-transfer-config": given}
    launches = [VLLM.launch(setup(role=role, config=config)) for role in ("prefill", "decode")]
    assert [launch.connector for launch in launches] == [connector] * 2
    written = [json.loads(flag(launch, "kv-transfer-config")[0]) for launch in launches]
    assert tuple(each["kv_role"] for each in written) == roles
    assert not any(launch.problems for launch in launches)


@pytest.mark.parametrize(
    ("transfer", "told"),
    [
        ({"kv_connector": "Teleport"}, "Teleport"),
        ({"kv_connector": ["NixlConnector"]}, "NixlConnector"),
        ({"kv_connector": "MooncakeConnector", "kv_role": "kv_consumer"}, "kv_producer"),
        ("{", "is not JSON"),
    ],
)
def test_a_transfer_that_cannot_work_is_a_problem(transfer, told):
    """Of a prefill worker."""
    launch = VLLM.launch(setup(role="prefill", config={"kv_transfer_config": transfer}))
    (problem,) = launch.problems
    assert problem.key == "kv_transfer_config"
    assert told in problem.message


def test_several_pods_split_the_model():
    """By their accelerators, if the user does not say how."""
    launch = VLLM.launch(setup(pods=2, devices=8))
    assert flag(launch, "tensor-parallel-size") == ["8"]
    assert flag(launch, "pipeline-parallel-size") == ["2"]
    assert flag(SGLANG.launch(setup(pods=2, devices=8)), "tp-size") == ["16"]
    (problem,) = VLLM.launch(setup(pods=2)).problems
    assert "tensor-parallel-size" in problem.message


def test_pods_of_a_worker_find_the_first_one():
    """With SGLang's own flags, or those of vLLM without Ray."""
    launch = SGLANG.launch(setup(pods=3, config={"tp_size": 24}))
    assert flag(launch, "dist-init-addr") == ["$(LWS_LEADER_ADDRESS):20000"]
    assert flag(launch, "node-rank") == ["0"]
    assert launch.follower.args[-2:] == ("--node-rank", "$(LWS_WORKER_INDEX)")
    config = {"distributed-executor-backend": "mp", "tensor-parallel-size": 16}
    launch = VLLM.launch(setup(pods=2, config=config))
    assert launch.follower.args[-1] == "--headless"
    assert flag(launch, "master-addr") == ["$(LWS_LEADER_ADDRESS)"]


def test_arguments_survive_the_shell_that_joins_ray(tmp_path):
    """The first Pod starts Ray, waits for the others, and runs the server with exactly its arguments."""
    for name in ("ray", "python3"):
        program = tmp_path / name
        program.write_text(
            f"#!{sys.executable}\nimport json, sys\n"
            f"open({str(tmp_path / 'log')!r}, 'a').write(json.dumps([{name!r}, *sys.argv[1:]]) + '\\n')\n"
        )
        program.chmod(0o755)
    value = {"quoted": 'it\'s "$HOME" `id` $(id)\n; exit 1', "n": [1, None]}
    launch = VLLM.launch(setup(pods=2, devices=1, config={"hf-overrides": value, "x": "a b\\"}))
    environment = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "POD_IP": "10.0.0.1"}
    command = [*launch.program.command, *launch.program.args]
    subprocess.run(command, env=environment, check=True, timeout=60)
    ran = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert ran[0] == ["ray", "start", "--head", "--port=6379", "--node-ip-address=10.0.0.1"]
    assert ran[-1] == ["python3", "-m", "vllm.entrypoints.openai.api_server", *launch.program.args[3:]]
    assert json.loads(ran[-1][ran[-1].index("--hf-overrides") + 1]) == value


def test_the_other_pods_wait_for_ray(tmp_path):
    """They join once the first one is reachable, and not before."""
    ray = tmp_path / "ray"
    ray.write_text(
        '#!/bin/sh\necho "$@" >>"$LOG"\n'
        'if [ "$1" = health-check ] && [ "$(wc -l <"$LOG")" -lt 2 ]; then exit 1; fi\n'
    )
    ray.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "LOG": str(tmp_path / "log"),
        "POD_IP": "10.0.0.2",
        "LWS_LEADER_ADDRESS": "m-0.m",
    }
    launch = VLLM.launch(setup(pods=2, devices=1))
    subprocess.run(launch.follower.command, env=environment, check=True, timeout=60)
    assert (tmp_path / "log").read_text().splitlines() == [
        *["health-check --address m-0.m:6379"] * 2,
        "start --address=m-0.m:6379 --node-ip-address=10.0.0.2 --block",
    ]


def test_settings_of_mindie_go_into_its_file():
    """Sections as they are, and single settings where they belong."""
    config = {
        "port": 9000,
        "maxSeqLen": 8192,
        "ServerConfig": {"maxLinkNum": 300},
        "BackendConfig": {"ScheduleConfig": {"maxBatchSize": 64}, "tokenizerProcessNumber": None},
        "ModelConfig": [{"npuMemSize": 20}],
    }
    launch = MINDIE.launch(setup(config=config, devices=2))
    assert not launch.problems
    document = json.loads(launch.file)
    server, backend = document["ServerConfig"], document["BackendConfig"]
    assert (server["port"], server["maxLinkNum"], server["httpsEnabled"]) == (9000, 300, False)
    assert "tokenizerProcessNumber" not in backend
    assert backend["npuDeviceIds"] == [[0, 1]]
    assert backend["ScheduleConfig"]["maxBatchSize"] == 64
    deployed = backend["ModelDeployConfig"]
    assert deployed["maxSeqLen"] == 8192
    (model,) = deployed["ModelConfig"]
    assert (model["modelName"], model["modelWeightPath"]) == ("m", "/w")
    assert (model["npuMemSize"], model["worldSize"]) == (20, 2)


def test_a_setting_that_mindie_does_not_know_is_a_problem():
    """It would have no effect."""
    config = {"max-model-len": 1, "ModelConfig": {"modelName": "x"}, "ServerConfig": 1}
    problems = MINDIE.launch(setup(config=config)).problems
    assert [problem.key for problem in problems] == ["max-model-len", "ModelConfig", "ServerConfig"]


def test_roles_of_a_disaggregated_mindie():
    """The coordinator takes the requests; the controller learns the proportion of the roles."""
    launches = {
        role: known.launcher("MindIEDisaggregated").launch(
            setup(role=role, shares={"prefill": 1, "decode": 3})
        )
        for role in ("prefill", "decode", "controller", "coordinator")
    }
    assert [role for role, launch in launches.items() if launch.takes_requests] == ["coordinator"]
    assert json.loads(launches["prefill"].file)["ServerConfig"]["inferMode"] == "dmi"
    assert json.loads(launches["controller"].file)["default_d_rate"] == 3
    assert launches["coordinator"].program.args == (
        "./bin/ms_coordinator",
        *("$(POD_IP)", "8000", "$(POD_IP)", "1026"),
    )


@pytest.mark.parametrize("launcher", [VLLM, SGLANG], ids=["vLLM", "SGLang"])
@pytest.mark.parametrize("key", ["hos", "ssl_certf", "config", "conf", "por", "served-model-nam"])
def test_reserved_flags_cannot_be_abbreviated_or_read_from_a_file(launcher, key):
    """Engines read the beginning of a flag as the whole, and more flags from a file."""
    launch = launcher.launch(setup(config={key: "x"}))
    assert [problem.key for problem in launch.problems] == [key]
    assert f"--{key.replace('_', '-')}" not in launch.program.args


@pytest.mark.parametrize("launcher", [VLLM, SGLANG], ids=["vLLM", "SGLang"])
def test_flags_that_begin_alike_are_no_abbreviations(launcher):
    for key in ("hosts", "max-num", "tp", "kv"):
        assert [problem.message for problem in launcher.launch(setup(config={key: "x"})).problems] == []
