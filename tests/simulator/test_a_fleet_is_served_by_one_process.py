import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from click.testing import CliRunner

from headgate.cli.simulate import simulate

COMMAND = [sys.executable, "-c", "from headgate.cli.simulate import simulate; simulate()", "fleet"]
PATIENCE_S = 60
"""Only turns a hang into a failure."""


@pytest.fixture
def start():
    """Starts `headgate simulate fleet`; returns the process and its engines' addresses by their names."""
    processes = []

    def launch(*words):
        process = subprocess.Popen(
            [*COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        processes.append(process)
        found = {}
        for line in process.stdout:
            told = re.fullmatch(r"(\S+) on (http://\S+)\n", line)
            if told is None:
                found["last"] = line
                break
            found[told[1]] = told[2]
        return process, found

    yield launch
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def ask(url, path):
    try:
        with urllib.request.urlopen(f"{url}{path}", timeout=PATIENCE_S) as response:
            return response.status, response.headers["x-inference-pod"], response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["x-inference-pod"], ""


def test_every_engine_of_a_file_answers_under_its_name(start, tmp_path):
    """With its group's constants, and the faults that concern it; a signal ends all of them with status 0."""
    file = tmp_path / "fleet.yaml"
    file.write_text(
        "groups:\n"
        "- {name: big, replicas: 2, profile: fast, engine: {kv_blocks: 500, max_model_len: 4000}}\n"
        "- {name: small, profile: fast}\n"
        "faults: [{kind: unready, engines: small-0, at_s: 0}]\n"
    )
    process, engines = start(str(file), "--model", "tiny", "--port", "0")
    assert engines.pop("last") == "simulating 3 engines\n"
    assert set(engines) == {"big-0", "big-1", "small-0"}
    for name, url in engines.items():
        status, pod, _ = ask(url, "/health")
        assert (status, pod) == (503 if name == "small-0" else 200, name)
    assert 'num_gpu_blocks="500"' in ask(engines["big-1"], "/metrics")[2]
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=PATIENCE_S) == 0
    assert process.stdout.read() == ""


def test_equal_engines_need_no_file(start):
    """As many as are asked for."""
    _, engines = start("--replicas", "3", "--profile", "fast", "--engine", "kv_blocks=20000", "--port", "0")
    assert set(engines) == {"engine-0", "engine-1", "engine-2", "last"}
    assert 'num_gpu_blocks="20000"' in ask(engines["engine-2"], "/metrics")[2]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fleet.yaml", "--replicas", "2"], "--replicas: already set by the file; change it there"),
        (["--profile", "slow"], "'slow' is not a profile"),
        (["--engine", "kv_blocks=many"], "'kv_blocks=many' is not NAME=NUMBER"),
        (
            ["--host", "127.0.0.1", "--port", "65535", "--replicas", "2", "--profile", "fast"],
            "start with a smaller one",
        ),
    ],
)
def test_what_cannot_be_served_is_told(words, told):
    """Before anything is."""
    result = CliRunner().invoke(simulate, ["fleet", *words])
    assert result.exit_code != 0
    assert told in result.output
