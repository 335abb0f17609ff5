"""Flags are written as the engines read them, release by release: `flags/` has what their parsers said.

The installed vLLM is compared too, where there is one. To record another release, run engine_parser.py with a
Python that has it; a build for GPUs is installed far enough without its libraries.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from headgate.engines import known, sglang, vllm
from headgate.engines.launch import Setup

FLAGS = Path(__file__).with_name("flags")
PARSER = Path(__file__).with_name("engine_parser.py")
RELEASES = sorted(FLAGS.glob("*.json"))
VLLM, SGLANG = known.launcher("vLLM"), known.launcher("SGLang")
SETUPS = {
    "adapters": Setup(
        weights="/w",
        name="m",
        adapters={"a": "/w/a", "b": "/w/b"},
        config={
            "enable-prefix-caching": False,
            "enforce-eager": True,
            "disable-log-stats": False,
            "max_model_len": 1024,
            "gpu-memory-utilization": 0.5,
            "seed": -1,
            "hf-overrides": {"rope_theta": 1e6, "text": 'it\'s "quoted"'},
            "limit-mm-per-prompt": {"image": 0},
            "allowed-origins": ["a", "b"],
            "middleware": ["x.y", "x.z"],
            "api-key": ["k", "l"],
            "ssl-ciphers": "A:B",
            "served-model-name": ["big", "bigger"],
            "chat-template": None,
        },
    ),
    "run-time adapters": Setup(weights="/w", name="m", change_adapters=True),
    "prefill": Setup(weights="/w", name="m", role="prefill"),
    "decode": Setup(
        weights="/w",
        name="m",
        role="decode",
        config={"kv_transfer_config": {"kv_connector": "MooncakeConnector", "kv_port": 14579}},
    ),
    "Ray": Setup(weights="/w", name="m", pods=2, devices=4),
    "mp": Setup(weights="/w", name="m", pods=2, devices=4, config={"distributed-executor-backend": "mp"}),
}


def flags(file):
    """Names by kind."""
    return {kind: set(names) for kind, names in json.loads(file.read_text()).items()}


def release(launcher):
    """The one of the default image."""
    name, version = launcher.engine.name.lower(), launcher.image.rpartition(":v")[2]
    return FLAGS / f"{name}-{version}.json"


@pytest.mark.parametrize("file", RELEASES, ids=lambda file: file.stem)
def test_kinds_of_flags_are_those_of_the_release(file):
    """Which booleans can be negated, and which lists are several arguments."""
    found = flags(file)
    ours = vllm if file.stem.startswith("vllm") else sglang
    assert found["several"] == ours.SEVERAL & set().union(*found.values())
    if ours is vllm:
        assert found["append"] == ours.APPENDED
        assert found["set"] - {"help"} == ours.ONLY_SET
    else:
        assert found["boolean"] == ours.NEGATABLE


@pytest.mark.parametrize("launcher", [VLLM, SGLANG], ids=["vLLM", "SGLang"])
def test_the_default_image_has_the_flags_that_are_set(launcher):
    """Whatever the worker is."""
    has = set().union(*flags(release(launcher)).values())
    for setup in SETUPS.values():
        launch = launcher.launch(Setup(**{**vars(setup), "config": {}}))
        for program in (launch.program, launch.follower):
            words = [*program.command, *program.args] if program else []
            given = [word[2:] for word in words if word.startswith("--") and "=" not in word]
            assert set(given) <= has


@pytest.fixture(scope="module")
def read(engine_python):
    """What the installed vLLM says of its flags, and of the command line of each worker."""
    lines = [arguments(setup) for setup in SETUPS.values()]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [engine_python, PARSER, "vllm"],
        input=json.dumps(lines),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
        check=True,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    return {**said, "read": dict(zip(SETUPS, said["read"], strict=True))}


def arguments(setup):
    """Of the server, whatever starts it."""
    program = VLLM.launch(setup).program
    words = [*program.command, *program.args]
    return words[words.index(vllm.SERVER[-1]) + 1 :]


@pytest.mark.engine
@pytest.mark.timeout(700)
class TestOfARealVllm:
    def test_its_flags_are_the_recorded_ones(self, read):
        """Of its release."""
        recorded = FLAGS / f"vllm-{read['version']}.json"
        assert recorded in RELEASES
        assert {kind: set(names) for kind, names in read["flags"].items()} == flags(recorded)

    def test_it_accepts_every_command_line(self, read):
        """With the values that were meant."""
        assert {name: given.get("error") for name, given in read["read"].items()} == dict.fromkeys(SETUPS)
        given = read["read"]["adapters"]
        assert given["served_model_name"] == "['big', 'bigger', 'm']"
        assert given["enable_prefix_caching"] == "False"
        assert given["enforce_eager"] == "True"
        assert given["max_model_len"] == "1024"
        assert given["seed"] == "-1"
        assert given["hf_overrides"] == repr({"rope_theta": 1e6, "text": 'it\'s "quoted"'})
        assert given["allowed_origins"] == "['a', 'b']"
        assert given["middleware"] == "['x.y', 'x.z']"
        assert given["api_key"] == "['k', 'l']"
        assert "name='a', path='/w/a'" in given["lora_modules"]
        assert "name='b', path='/w/b'" in given["lora_modules"]
        assert "kv_role='kv_both'" in read["read"]["prefill"]["kv_transfer_config"]
        assert "kv_role='kv_consumer'" in read["read"]["decode"]["kv_transfer_config"]
        assert read["read"]["Ray"]["pipeline_parallel_size"] == "2"
        assert read["read"]["mp"]["nnodes"] == "2"
