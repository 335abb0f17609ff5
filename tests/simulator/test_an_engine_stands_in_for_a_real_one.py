"""`headgate simulate as` takes the command lines of real engines."""

import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from headgate.cli.simulate import simulate
from headgate.engines.known import launcher
from headgate.engines.launch import Setup
from headgate.simulator import server


@pytest.fixture
def stand_in(monkeypatch):
    """The settings that a command line leads to, and the output."""

    def run(*words, **environment):
        made = []

        def serve(served, on_listening):
            for each in served:
                each.sock.close()
                made.append(each.settings)

        monkeypatch.setattr(server, "run", serve)
        result = CliRunner().invoke(simulate, ["as", "--port", "0", *words], env=environment)
        assert not made or result.exit_code == 0
        return made[0] if made else None, result.output

    return run


VLLM = ("python3", "-m", "vllm.entrypoints.openai.api_server")
SGLANG = ("python3", "-m", "sglang.launch_server")


@pytest.mark.parametrize(
    "words",
    [
        (*VLLM, "--model", "/weights/x"),
        ("/usr/bin/python3.12", *VLLM[1:], "--model=/weights/x"),
        ("vllm", "serve", "/weights/x"),
        ("/opt/bin/vllm", "serve", "--model", "/weights/x"),
        ("vllm", "--model", "/weights/x"),
        (*SGLANG, "--model-path", "/weights/x"),
        ("trtllm-serve", "/weights/x"),
    ],
)
def test_the_engine_is_that_of_the_command(stand_in, words):
    """And so is its model."""
    made, _ = stand_in(*words)
    assert made.models == ("/weights/x",)
    assert made.api == next(each for each in ("vllm", "sglang", "trtllm") if each in " ".join(words))


def test_unknown_flags_are_ignored_with_their_values(stand_in):
    """They are named once, and those that a simulated engine has take effect."""
    made, output = stand_in(
        *("--profile", "fast", *VLLM, "--model", "/weights/x", "--served-model-name", "one", "two"),
        *("--host", "127.0.0.1", "--max-num-seqs", "7", "--dtype", "bfloat16", "-O3", "--quantization=fp8"),
        *("--max-model-len", "32k", "--hf-overrides", '{"a": -1}', "--trust-remote-code", "--no-async"),
        *("--enable-lora", "--max-lora-rank", "64", "--lora-modules", "a=/a", "b=/b", "--max_loras", "2"),
        *("--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_producer"}'),
        *("--load-format", "-x", "--config", "/nowhere.yaml", "--enable-prefix-caching"),
    )
    assert made.models == ("one", "two")
    assert made.engine.max_num_seqs == 7
    assert made.checks_paths
    assert made.engine.max_adapters == 2
    assert made.engine.prefix_cache
    assert [each.name for each in made.lora_modules] == ["a", "b"]
    assert made.role == "prefill"
    ignored = "--dtype -O3 --quantization --max-model-len --hf-overrides --trust-remote-code --no-async"
    more = "--max-lora-rank --load-format -x --config"
    assert f"ignored flags of vllm: {ignored} {more}" in output


def test_sglangs_names_are_understood(stand_in):
    """Of its model, its adapters, its role and its limits."""
    made, _ = stand_in(
        *(*SGLANG, "--model-path", "/weights/x", "--lora-paths", "a=/a", "--disaggregation-mode", "decode"),
        *("--max-running-requests", "3", "--context-length", "100", "--tp-size", "2", "--enable-metrics"),
    )
    assert (made.api, made.role) == ("sglang", "decode")
    assert (made.engine.max_num_seqs, made.engine.max_model_len) == (3, 100)
    assert [each.name for each in made.lora_modules] == ["a"]


def test_a_command_of_no_engine_is_refused(stand_in):
    """With those that are known."""
    made, output = stand_in("sleep", "5")
    assert made is None
    assert "no engine in the command line '--port 0 sleep 5'" in output
    assert "-m vllm.entrypoints.openai.api_server" in output


def test_help_is_of_the_command(stand_in):
    """Help flags of the engine do not end the program."""
    assert "Usage: simulate as [OPTIONS] COMMAND..." in CliRunner().invoke(simulate, ["as", "--help"]).output


def _launch_of_two_pods():
    setup = Setup(
        weights="/weights/x", name="tiny", pods=2, config={"tensor-parallel-size": 1, "max-num-seqs": 5}
    )
    launch = launcher("vLLM").launch(setup)
    assert launch.program.command[:2] == ("sh", "-c")
    return launch


def test_the_first_pod_of_a_ray_cluster_serves(stand_in):
    """The shell's script that waits for Ray does not run; the engine after it is simulated."""
    program = _launch_of_two_pods().program
    made, _ = stand_in("--profile", "fast", *program.command, *program.args, "--host", "127.0.0.1")
    assert made.models == ("tiny",)
    assert made.engine.max_num_seqs == 5


def test_a_ray_worker_waits_until_it_is_stopped():
    """It serves nothing, as a real one."""
    follower = _launch_of_two_pods().follower
    words = [sys.executable, "-m", "headgate", "simulate", "as", *follower.command, *follower.args]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert "Ray worker" in process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
