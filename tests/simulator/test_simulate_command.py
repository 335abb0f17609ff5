import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from headgate.cli.simulate import simulate
from headgate.simulator.model import DEFAULT_PROFILE, PROFILES

COMMAND = [
    sys.executable,
    "-c",
    "from headgate.cli.simulate import simulate; simulate()",
    "engine",
    "--port",
    "0",
]
PATIENCE_S = 30
"""Only turns a hang into a failure."""


@pytest.fixture
def start():
    """Starts `headgate simulate engine` as a process; returns it and its URL once it listens."""
    processes = []

    def launch(*options: str, **environment: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [*COMMAND, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
        )
        processes.append(process)
        line = process.stdout.readline()
        process.bootstrap = (re.findall(r"bootstrap on port (\d+)", line) or [None])[0]
        return process, re.search(r"http://[^\s,]+", line)[0]

    yield launch
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def listens(url: str) -> bool:
    host, port = url.removeprefix("http://").split(":")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()
    except ConnectionRefusedError:
        return False
    return True


def get(url: str):
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        return json.load(response)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_promptly_with_status_0(start, number):
    """The process is gone, without complaint, long before the time that it has to drain."""
    process, _ = start("--drain-duration", "3600")
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE_S) == 0
    assert process.stdout.read() == ""


def test_a_request_in_flight_may_end_before_the_process_does(start):
    """After SIGTERM a stream that fits into the drain time is completed."""
    process, url = start("--profile", "fast", "--base-s", "0.02", "--drain-duration", "3600")
    body = {"model": "simulated", "prompt": "x", "max_tokens": 15, "stream": True}
    ask = urllib.request.Request(f"{url}/v1/completions", data=json.dumps(body).encode())
    with urllib.request.urlopen(ask, timeout=PATIENCE_S) as response:
        first = response.readline()
        process.send_signal(signal.SIGTERM)
        text = (first + response.read()).decode()
    assert (text.count("data: "), text[-14:]) == (16, "data: [DONE]\n\n")
    assert process.wait(timeout=PATIENCE_S) == 0


def test_a_second_signal_cuts_what_is_in_flight(start):
    """With an hour to drain, a stream without an end is told by the second signal, and the process ends."""
    process, url = start("--base-s", "600", "--drain-duration", "3600")
    body = {"model": "simulated", "prompt": "x", "stream": True}
    ask = urllib.request.Request(f"{url}/v1/completions", data=json.dumps(body).encode())
    with urllib.request.urlopen(ask, timeout=PATIENCE_S) as response:
        process.send_signal(signal.SIGTERM)
        while listens(url):
            time.sleep(0.01)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert b"The engine stopped" in response.read()
    assert process.wait(timeout=PATIENCE_S) == 0


def test_the_environment_of_a_pod_is_used(start):
    """POD_IP is the address, SIM_MODEL the served names, and options override the profile."""
    _, url = start("--max-model-len", "512", POD_IP="127.0.0.5", SIM_MODEL="llama tiny-llama")
    assert url.startswith("http://127.0.0.5:")
    cards = get(f"{url}/v1/models")["data"]
    assert [(card["id"], card["max_model_len"]) for card in cards] == [("llama", 512), ("tiny-llama", 512)]


def test_a_port_in_use_is_said_plainly(start):
    """The message names the address and what to change; there is no traceback."""
    _, url = start()
    result = CliRunner().invoke(simulate, ["engine", "--port", url.rpartition(":")[2]])
    assert result.exit_code == 1
    assert "cannot listen on 127.0.0.1:" in result.output
    assert "--port" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--profile", "gpu"], "'gpu' is not a profile; there are 7b-a100"),
        (["--kv-blocks", "3"], "raise kv_blocks or lower max_model_len"),
        (["--base-s", "-1"], "--base-s"),
        (["--base-s", "nan"], "costs.base_s"),
        (["--model", ""], "at least one served name is needed"),
        (["--lora-modules", "sql"], "neither name=path nor JSON"),
        (["--model", "a", "--lora-modules", "a=/x"], "must differ"),
        (["--kv-events-config", '{"port": 1}'], "unknown field `port`"),
        (["--kv-events-config", '{"endpoint": "5557"}'], "address of ZMQ"),
        (["--kv-events-config", "{"], 'is not JSON such as {"endpoint"'),
        (["--failure-types", "reset,boredom"], "there is no 'boredom'; there are rate_limit"),
        (["--engine", "sglang", "--metrics-generation", "old"], "sglang has new"),
    ],
)
def test_bad_options_are_usage_errors(options, message):
    """The message says which setting is at fault."""
    result = CliRunner().invoke(simulate, ["engine", *options])
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- {kind: slow}", "at_s"),
        ("- {kind: slow, at_s: 1}", "factor"),
        ("{a: 1", "is not YAML"),
        ("a: 1", "must be a list"),
    ],
)
def test_a_wrong_schedule_is_a_usage_error(tmp_path, text, message):
    """The file is read before anything starts."""
    path = tmp_path / "faults.yaml"
    path.write_text(text)
    result = CliRunner().invoke(simulate, ["engine", "--port", "0", "--faults", str(path)])
    assert result.exit_code == 2
    assert message in result.output


def test_an_address_of_events_in_use_is_said_plainly(start):
    """Not a traceback, but which address it is."""
    _, url = start()
    taken = url.removeprefix("http://")
    config = json.dumps({"endpoint": f"tcp://{taken}"})
    result = CliRunner().invoke(simulate, ["engine", "--port", "0", "--kv-events-config", config])
    assert result.exit_code == 1
    assert f"cannot publish KV events on tcp://{taken}" in result.output


def test_a_pair_of_processes_meets_at_the_bootstrap_port(start):
    """SGLang's form through the command's options."""
    options = ("--engine", "sglang", "--profile", "fast", "--bootstrap-port", "0")
    process, prefill = start(*options, "--role", "prefill")
    line = process.bootstrap
    _, decode = start(*options, "--role", "decode")
    body = {
        "model": "simulated",
        "prompt": "Once",
        "max_tokens": 2,
        "bootstrap_host": "127.0.0.1",
        "bootstrap_port": int(line),
        "bootstrap_room": 7,
    }

    def ask(url):
        request = urllib.request.Request(f"{url}/v1/completions", data=json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return json.load(response)["usage"]["completion_tokens"]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(ask, (prefill, decode))) == [2, 2]


def test_profiles_lists_all_of_them():
    """Every profile is shown by name, and the default one is marked."""
    output = CliRunner().invoke(simulate, ["profiles"]).output
    assert all(name in output for name in PROFILES)
    assert f"{DEFAULT_PROFILE} (default)" in output


def test_constants_have_the_names_that_change_them():
    """Each that is listed can be given to a replay's --engine."""
    output = CliRunner().invoke(simulate, ["profiles"]).output
    constants = dict(line.split() for line in output.splitlines() if line.startswith(" "))
    assert {"base_s", "kv_blocks", "max_adapters"} <= constants.keys()
    given = [word for name, value in constants.items() for word in ("--engine", f"{name}={value}")]
    result = CliRunner().invoke(
        simulate, ["trace", "--workload", "burst", "--set", "requests=1", "--set", "output_tokens=1", *given]
    )
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("trace --policy pre", ["predicted"]),
        ("trace --policy random,least-w", ["random,least-work"]),
        ("trace --policy random,r", ["random,round-robin"]),
        ("trace --workload bu", ["burst"]),
        ("trace --profile 70", ["70b-8xh100"]),
        ("engine --profile 70", ["70b-8xh100"]),
    ],
)
def test_a_shell_completes_names(words, offered):
    """Of policies also behind a comma, without those that stand there."""
    *before, last = words.split()
    completion = ShellComplete(simulate, {}, "simulate", "_SIMULATE_COMPLETE")
    assert [item.value for item in completion.get_completions(before, last)] == offered


def test_the_command_group_imports_no_server():
    """`headgate --help` must not pay for uvicorn and metrics."""
    heavy = ["uvicorn", "starlette", "uvloop", "prometheus_client", "msgspec"]
    probe = f"import sys, headgate.cli.simulate; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
