"""`headgate profile` finds the times of engines whose step costs are known."""

import asyncio
import contextlib
import json
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from headgate.cli import main
from headgate.cli.profile import http, measuring, streaming

BASE_S, SEQUENCE_S, TOKEN_S = 0.03, 0.001, 0.0002
USUAL = (
    *("--model", "tiny"),
    *("--base-s", str(BASE_S), "--per-decode-sequence-s", str(SEQUENCE_S)),
    *("--per-prefill-token-s", str(TOKEN_S), "--per-start-s", "0", "--per-kv-token-s", "0"),
)
PROMPT, RESPONSE = 100, 20
LENGTHS = ("--prompt-tokens", str(PROMPT), "--output-tokens", str(RESPONSE))
LATE_S = 60.0
PAGE = Path(__file__).parents[2] / "docs" / "planning.md"

Engine = Callable[..., str]


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Starts simulated engines, and returns their URLs."""
    started: list[subprocess.Popen[str]] = []

    def start(*options: str, usual: Sequence[str] = USUAL) -> str:
        words = [*usual, *options, "--port", "0"]  # the last port counts
        command = [sys.executable, "-P", "-m", "headgate", "simulate", "engine", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout
        return process.stdout.readline().split(" on ")[1].strip()

    yield start
    for process in started:
        process.terminate()
        process.wait(LATE_S)
        assert process.stdout
        process.stdout.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["profile", *arguments], catch_exceptions=False)


def test_times_of_an_engine_are_found_and_predicted(engine: Engine) -> None:
    """Each token takes a step, and the prefills of others fall into the steps of a request.

    The profile also predicts a batch size that it was not measured at, within the error that it states and
    that of another measurement.
    """
    url = engine()
    done = run(url, "--max-batch", "16", *LENGTHS, "-o", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["model"], found["maxBatchSize"]) == ("tiny", 16)
    shared_ms = 1000 * PROMPT * TOKEN_S / (RESPONSE - 1)
    assert found["beta"] == pytest.approx(1000 * SEQUENCE_S + shared_ms, rel=0.4)
    assert found["alpha"] == pytest.approx(1000 * BASE_S - shared_ms, rel=0.3)
    assert found["itlError"]["largest"] < 0.4
    itl_ms = found["alpha"] + found["beta"] * 8
    ttft_ms = found["gamma"] + found["delta"] * PROMPT * 8
    step_ms = 1000 * (BASE_S + 8 * SEQUENCE_S + PROMPT * TOKEN_S)
    assert ttft_ms == pytest.approx(itl_ms / 2 + step_ms, rel=0.6)  # half a step is left when it comes

    plan = measuring.Plan([6], [PROMPT], RESPONSE, 60.0)
    measured = asyncio.run(measuring.measure(http.parse(url), "tiny", plan, lambda *_: None))
    samples = measured.cells[0].samples
    ttft_ms = 1000 * sum(each.ttft_s for each in samples) / len(samples)
    itl_ms = 1000 * sum(each.itl_s for each in samples) / len(samples)
    again = 0.4
    assert found["alpha"] + found["beta"] * 6 == pytest.approx(
        itl_ms, rel=found["itlError"]["largest"] + again
    )
    assert found["gamma"] + found["delta"] * PROMPT * 6 == pytest.approx(
        ttft_ms, rel=found["ttftError"]["largest"] + again
    )


def test_a_profile_is_yaml_for_a_variant(engine: Engine) -> None:
    """All numbers are text, as the definition wants them; what was measured is in comments."""
    done = run(f"{engine()}/v1", "--max-batch", "3", *LENGTHS)
    assert done.exit_code == 0, done.output
    profile = yaml.safe_load(done.stdout)["variantProfile"]
    numbers = {**profile["perfParms"]["decodeParms"], **profile["perfParms"]["prefillParms"]}
    assert list(numbers) == ["alpha", "beta", "gamma", "delta"]
    assert all(re.fullmatch(r"\d+\.\d+", number) for number in numbers.values())
    assert profile["maxBatchSize"] == 3
    assert "# ITL = alpha + beta * batch: " in done.stdout
    assert re.search(r"^batch 3: TTFT \d+ ms, ITL ", done.stderr, re.MULTILINE)


def test_the_documented_commands_work(engine: Engine) -> None:
    """Those of docs/planning.md, at another port; the output has the lines of the page."""
    section = PAGE.read_text().split("## Measure an engine\n")[1].split("\n## ")[0]
    serve, measure = re.findall(r"^```sh\nheadgate (.*)\n```$", section, re.MULTILINE)
    [shown] = re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    url = engine(*serve.removeprefix("simulate engine ").split(), usual=())
    done = run(*measure.removeprefix("profile ").replace("http://127.0.0.1:8000", url).split())
    assert done.exit_code == 0, done.output
    assert shape(done.stdout.replace(url, "http://127.0.0.1:8000")) == shape(shown)


def shape(text: str) -> str:
    """Without the figures that differ each time."""
    return re.sub(r" +", " ", re.sub(r"(?<=[ \"])[\d.]+(?=[ \"m]|$)", "0", text, flags=re.MULTILINE))


def test_a_full_batch_ends_the_measurement(engine: Engine) -> None:
    """The engine runs four requests at most: more of them wait, and that is no time of a prefill."""
    done = run(engine("--max-num-seqs", "4"), "--max-batch", "32", *LENGTHS, "-o", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["maxBatchSize"] == 4
    assert any("larger batches were not measured" in each for each in found["warnings"])
    assert "warning: with 8 requests, " in done.stderr


@contextlib.contextmanager
def others(url: str) -> Iterator[None]:
    """Four other requests at any time: each is followed by another, and their lengths differ, so that they do
    not end together."""
    running, over = threading.Event(), threading.Event()

    async def stream(tokens: int) -> None:
        rng = random.Random(tokens)
        while not over.is_set():
            await streaming.complete(http.parse(url), "tiny", streaming.prompt(PROMPT, rng), tokens)
            running.set()

    async def streams() -> None:
        async with asyncio.TaskGroup() as group:
            for tokens in (40, 50, 60, 70):
                group.create_task(stream(tokens))

    thread = threading.Thread(target=lambda: asyncio.run(streams()))
    thread.start()
    try:
        assert running.wait(LATE_S)
        yield
    finally:
        over.set()
        thread.join()


def test_other_requests_are_noticed(engine: Engine) -> None:
    """By the engine's own count."""
    url = engine()
    with others(url):
        done = run(url, "--max-batch", "2", *LENGTHS)
    assert "warning: the engine had other requests at batch size 1, 2: " in done.stderr


def test_the_time_is_limited(engine: Engine) -> None:
    """With what is to be done about it."""
    done = run(engine("--base-s", "0.2"), "--time-limit", "1", *LENGTHS)
    assert done.exit_code == 1
    assert "fewer than two batch sizes were measured: raise --time-limit" in done.stderr


def test_an_api_key_is_sent(tmp_path: Path) -> None:
    """From its file, whose content is checked."""
    key = tmp_path / "key"
    key.write_text("secret\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        heads: list[bytes] = []

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                heads.append(connection.recv(4096))
                connection.sendall(b"HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        done = run(f"http://127.0.0.1:{server.getsockname()[1]}", "--api-key-file", str(key))
        answering.join()
    assert b"\r\nauthorization: Bearer secret\r\n" in heads[0]
    assert "GET /v1/models has no list of models: status 401" in done.stderr
    key.write_bytes(b"\xff")
    assert "has no valid key" in run("http://127.0.0.1:1", "--api-key-file", str(key)).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["http://127.0.0.1:1"], "Error: http://127.0.0.1:1: cannot connect: "),
        (["ftp://127.0.0.1"], "'ftp://127.0.0.1' is not a URL such as http://127.0.0.1:8000"),
        (["http://127.0.0.1:99999"], "URL: Port out of range"),
        (["http://me:secret@127.0.0.1"], "characters or credentials that a URL of an engine must not have"),
        (["http://127.0.0.1", "--prompt-tokens", "1,x"], "is not up to 4 numbers from 1 to 100000"),
        (["http://127.0.0.1", "--prompt-tokens", "0"], "is not up to 4 numbers from 1 to 100000"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], message: str) -> None:
    """In a line."""
    done = run(*arguments)
    assert done.exit_code in (1, 2)
    assert message in done.stderr


def test_models_are_chosen(engine: Engine) -> None:
    """A name that the engine does not have is its own error; several names need a choice."""
    assert "returned 404: " in run(engine(), "--model", "huge").stderr
    several = run(engine("--model", "small"))
    assert "choose a model with --model; the server has: tiny, small" in several.stderr


RESPONSES = {
    "not http": b"hello\r\n\r\n",
    "no stream": b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000,
    "an endless event": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    + (b"10000\r\ndata:%s\r\n" % (b"x" * 65531)) * 40,
    "no completion": b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\ndata:[1]\n",
    "closed": b"",
}


@pytest.mark.parametrize("response", RESPONSES.values(), ids=RESPONSES)
def test_hostile_servers_are_errors(response: bytes) -> None:
    """In a line, without an end of memory."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                with contextlib.suppress(OSError):  # of a connection that was closed
                    connection.sendall(response)

        answering = threading.Thread(target=answer)
        answering.start()
        done = run(f"http://127.0.0.1:{server.getsockname()[1]}", "--model", "tiny")
        answering.join()
    assert done.exit_code == 1
    assert re.match(r".*^Error: http://127.0.0.1:\d+: \S", done.stderr, re.MULTILINE | re.DOTALL)


def test_ctrl_c_ends_it(engine: Engine) -> None:
    """With the exit code of a signal, and the engine's requests end too."""
    url = engine("--base-s", "0.5")
    command = [sys.executable, "-P", "-m", "headgate", "profile", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert process.stderr.readline().startswith("warm-up")
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        assert process.wait(LATE_S) == 130
        assert "Traceback" not in process.stderr.read()
