"""`headgate bench` against simulated engines, in processes of their own."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner, Result

from headgate.cli import main

STEP_S = 0.01
STEPS = (
    "--base-s",
    str(STEP_S),
    "--per-decode-sequence-s",
    "0",
    "--per-kv-token-s",
    "0",
    "--per-start-s",
    "0",
)
LATE_S = 60.0
SHORT = ("--prompt-tokens", "50", "--output-tokens", "8", "--arrivals", "constant")
EXAMPLE = Path(__file__).parents[2] / "examples" / "simulate" / "trace.jsonl"


@contextlib.contextmanager
def engine(*options: str) -> Iterator[str]:
    """The URL of a simulated engine."""
    command = [sys.executable, "-P", "-m", "headgate", "simulate", "engine", "--port", "0", *STEPS, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().split(" on ")[1].strip()
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """An engine with steps of ten milliseconds."""
    with engine("--model", "tiny", "--per-prefill-token-s", "0.0001") as found:
        yield found


def run(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["bench", *arguments], env=env, catch_exceptions=False)


def measured(*arguments: str) -> dict[str, Any]:
    done = run(*arguments, "-o", "json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_table_tells_what_clients_experienced(url: str) -> None:
    """Times, counts, tokens and the objectives met."""
    done = run(
        url, "--rate", "20", "--requests", "20", *SHORT, "--slo", "ttft=10s,tpot=10s", "--require", "1"
    )
    assert done.exit_code == 0, done.output
    assert done.stderr.startswith(
        "workload independent: 20 requests in 1 s, 21.1 a second, on average 50 prompt"
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{url}, model tiny: ")
    for name, unit in (("TTFT", "ms"), ("TPOT", "ms"), ("ITL", "ms"), ("latency", "ms")):
        assert re.search(rf"^{name} +[\d.]+ {unit} ", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^succeeded +20 +total +[\d,]+ +160$", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^in SLO +100.0% ", done.stdout, re.MULTILINE)


def test_the_document_has_all_of_it(url: str) -> None:
    """And everything that is needed to repeat the run."""
    [found] = measured(url, "--rate", "20", "--duration", "1s", *SHORT, "--seed", "7", "--salt", "s")["runs"]
    assert (found["requests"], found["succeeded"], found["errors"]) == (20, 20, {})
    assert found["output_tokens"] == found["planned_output_tokens"] == 160
    assert found["itl_s"]["p50"] == pytest.approx(STEP_S, rel=0.5)
    assert found["configuration"]["parameters"]["prompt_tokens"] == 50
    assert (found["configuration"]["seed"], found["configuration"]["salt"]) == (7, "s")
    assert sum(each["requests"] for each in found["windows"]) == 20
    assert found["client"]["processes"] == 1
    assert found["slo_share"] is None


def test_a_trace_is_replayed_by_several_processes(url: str) -> None:
    """Each request by one of them, and prompts share what the trace says."""
    arguments = ("--trace", str(EXAMPLE), "--requests", "24", "--rate", "60", "--workers", "2")
    [found] = measured(url, *arguments, "--max-in-flight", "16")["runs"]
    assert found["requests"] + found["dropped"] == 24
    assert found["client"]["processes"] == 2
    assert found["cached_share"] > 0.05
    assert found["configuration"]["source"] == f"{EXAMPLE} (mooncake)"


def test_a_slower_server_is_found_to_be_worse(url: str, tmp_path: Path) -> None:
    """In one table, also with a saved run; equal servers differ by nothing that is certain."""
    saved = tmp_path / "run.json"
    plan = ("--rate", "16", "--requests", "32", *SHORT)
    with engine("--model", "tiny", "--per-prefill-token-s", "0.002") as slow:
        done = run(url, "--compare", slow, *plan, "--rounds", "2", "--save", str(saved))
        assert done.exit_code == 0, done.output
        assert re.search(r"^TTFT p50 .* \* worse$", done.stdout, re.MULTILINE), done.stdout
        for name, server in (("first", url), ("second", slow)):
            assert re.search(rf"^{name}: {server}, begun at 20", done.stdout, re.MULTILINE)
        assert re.search(r"^requests/s +[\d.]+ +[\d.]+ +[+-]", done.stdout, re.MULTILINE)
        again = run(slow, "--compare", str(saved), *plan, "-o", "json")
    differences = {each["name"]: each for each in json.loads(again.stdout)["differences"]}
    ttft = differences["TTFT p50"]
    assert ttft["is_better"] is True
    assert ttft["low"] <= ttft["change"] <= ttft["high"] < 0
    assert ttft["first"] > ttft["second"] > 0
    offline = run(str(saved), "--compare", str(saved))
    assert offline.exit_code == 0
    assert "* worse" not in offline.stdout
    assert "* better" not in offline.stdout
    other = run(url, "--compare", str(saved), "--rate", "20", "--requests", "8", *SHORT)
    assert "note: the runs differ in rate_per_s: 20.0 and 16.0" in other.stdout


def test_times_are_drawn(url: str, tmp_path: Path) -> None:
    """As one PNG, also of a saved run."""
    saved, first, second = (tmp_path / name for name in ("run.json", "a.png", "b.png"))
    done = run(url, "--rate", "20", "--requests", "5", *SHORT, "--save", str(saved), "--png", str(first))
    assert done.exit_code == 0, done.output
    assert run(str(saved), "--png", str(second)).exit_code == 0
    assert first.read_bytes().startswith(b"\x89PNG\r\n")
    assert second.read_bytes().startswith(b"\x89PNG\r\n")


def test_missed_objectives_have_an_exit_code(url: str) -> None:
    """For pipelines: 3, after the table."""
    plan = (url, "--rate", "20", "--requests", "4", *SHORT)
    done = run(*plan, "--slo", "tpot=1ms", "--require", "0.9")
    assert done.exit_code == 3
    assert "in SLO" in done.stdout
    assert "0.00% of the requests met the objectives; --require 0.9 asks for more" in done.stderr
    assert run(*plan, "--require", "0.9").exit_code == 0


def test_dropped_requests_miss_their_objectives(url: str) -> None:
    """They are told, and no time hides them."""
    plan = ("--rate", "50", "--requests", "10", "--prompt-tokens", "50", "--output-tokens", "50", "--drop")
    [found] = measured(url, *plan, "--max-in-flight", "1", "--slo", "ttft=60s")["runs"]
    assert found["dropped"] >= 5
    assert found["requests"] == 10 - found["dropped"]
    assert found["slo_share"] == pytest.approx(found["requests"] / 10)
    assert any("were dropped" in note for note in found["notes"])


def test_conversations_of_a_dataset_are_prompts(url: str, tmp_path: Path) -> None:
    """With the actual responses in between."""
    said = [{"from": who, "value": "some words to say " * 8} for who in ("human", "gpt") * 3]
    file = tmp_path / "sharegpt.json"
    file.write_text(json.dumps([{"id": "a", "conversations": said}] * 3))
    [found] = measured(
        url, "--dataset", str(file), "--turns", "3", "--requests", "9", "--rate", "50", "--output-tokens", "8"
    )["runs"]
    assert (found["succeeded"], found["output_tokens"]) == (9, 72)
    assert found["cached_share"] > 0.3


def served(url: str) -> float:
    """How many requests an engine has finished."""
    page = httpx2.get(f"{url}/metrics", trust_env=False, timeout=LATE_S).text
    lines = [line for line in page.splitlines() if line.startswith("vllm:request_success_total")]
    return sum(float(line.split()[-1]) for line in lines)


def test_ctrl_c_prints_what_there_is(url: str) -> None:
    """With the exit code of a signal."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "headgate",
        "bench",
        url,
        "--rate",
        "20",
        "--duration",
        "1h",
        *SHORT,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        assert process.stderr.readline().startswith("workload independent: 72,000 requests in 3600 s")
        before = served(url)
        while served(url) < before + 5:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=LATE_S)
    assert process.returncode == 130
    assert "(interrupted)" in told
    assert re.search(r"^unfinished +7\d,\d\d\d", told, re.MULTILINE), told
    assert re.search(r"^TTFT ", told, re.MULTILINE)
    assert "Traceback" not in errors


def test_ctrl_c_ends_the_wait_for_a_server() -> None:
    """That accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [sys.executable, "-P", "-m", "headgate", "bench", address, "--model", "tiny"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                process.send_signal(signal.SIGINT)
                told, errors = process.communicate(timeout=LATE_S)
    assert (process.returncode, told) == (130, "")
    assert "Traceback" not in errors


class Strict:
    """A server that rejects fields that OpenAI's API does not have, and counts its requests."""

    def __init__(self, unknown: tuple[bytes, ...]) -> None:
        self._unknown = unknown
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Strict":
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._accepting.join()
        for each in self._threads:
            each.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while line := stream.readline():
                head = line + b"".join(iter(stream.readline, b"\r\n"))
                length = re.search(rb"content-length: (\d+)", head)
                body = stream.read(int(length[1])) if length else b""
                self.heads.append(head)
                self.bodies.append(body)
                connection.sendall(self._response(head, body))

    def _response(self, head: bytes, body: bytes) -> bytes:
        status, text = b"200 OK", b'{"object": "list", "data": [{"id": "m"}]}'
        if head.startswith(b"POST"):
            text = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n'
            if any(name in body for name in self._unknown):
                status, text = b"400 Bad Request", b'{"error": {"message": "unknown field"}}'
        return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%s" % (status, len(text), text)


def test_fields_that_a_server_rejects_are_left_out() -> None:
    """It is told, since lengths differ then, or tokens are counted by events."""
    with Strict((b"ignore_eos",)) as server:
        [found] = measured(server.url, "--rate", "50", "--requests", "2")["runs"]
        assert found["succeeded"] == 2
        assert any("rejects ignore_eos and min_tokens" in note for note in found["notes"])
        assert b"ignore_eos" not in server.bodies[-1]
        assert b"stream_options" in server.bodies[-1]
    with Strict((b"ignore_eos", b"stream_options")) as server:
        [found] = measured(server.url, "--rate", "50", "--requests", "2")["runs"]
        assert (found["succeeded"], found["output_tokens"]) == (2, 2)
        assert any("counted by events" in note for note in found["notes"])
    with Strict((b"messages",)) as server:
        done = run(server.url)
        assert done.exit_code == 1
        assert "POST /v1/chat/completions: http 400: {" in done.stderr


def test_keys_and_headers_are_sent_and_not_told(tmp_path: Path) -> None:
    """A key from the environment or a file; neither the output nor a saved run has it."""
    file, saved = tmp_path / "key", tmp_path / "run.json"
    file.write_text("from-file\n")
    plan = ("--rate", "50", "--requests", "1", "--save", str(saved), "-o", "json")
    with Strict(()) as server:
        first = run(server.url, *plan, "-H", "x-tier=gold", env={"OPENAI_API_KEY": "from-env"})
        assert all(b"\r\nauthorization: Bearer from-env\r\n" in head for head in server.heads)
        assert all(b"\r\nx-tier: gold\r\n" in head for head in server.heads)
        assert all(b"\r\nx-headgate-explain: 1\r\n" in head for head in server.heads)
        server.heads.clear()
        second = run(server.url, *plan, "--api-key-file", str(file), "--no-explain")
        assert all(b"\r\nauthorization: Bearer from-file\r\n" in head for head in server.heads)
        assert not any(b"explain" in head for head in server.heads)
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "from-" not in first.output + second.output + saved.read_text()


MISTAKES = {
    "--workload and --trace cannot be combined": ("--workload", "chat", "--trace", "x"),
    "--set x: unknown parameter": ("--set", "x=1"),
    "unknown objective 'tfft'; did you mean ttft?": ("--slo", "tfft=1s"),
    "'5' is not a time such as 500ms": ("--slo", "ttft=5"),
    "ttft and tpot need streamed responses": ("--slo", "ttft=1s", "--no-stream"),
    "--burstiness is for --arrivals gamma": ("--burstiness", "2"),
    "--rate-scale is for a --trace": ("--rate-scale", "2"),
    "--rounds is for --compare": ("--rounds", "2"),
    "--key needs --cert": ("--key", __file__),
    "'x' is not NAME=VALUE": ("-H", "x"),
    "the header host is set by the client itself": ("-H", "host=x"),
    "has characters that a header must not have": ("-H", "x=a\r\nb"),
    "not a JSON object": ("--body", "[1]"),
    "x: No such file or directory": ("--trace", "x"),
    "is no list of conversations": ("--dataset", __file__),
    "more than 1,000,000 requests": ("--rate", "1000", "--duration", "1h"),
    "no request is due within --duration": ("--duration", "0s"),
    "is no run that --save wrote": ("--compare", __file__),
    "cannot connect: ": (),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_explained(message: str) -> None:
    """In a line, before anything is sent."""
    done = run("http://127.0.0.1:1", *MISTAKES[message])
    assert done.exit_code in (1, 2)
    assert message in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("arguments", [("no.json",), ("http://127.0.0.1:1", "--compare", "no.json")])
def test_a_saved_run_that_is_not_there_is_no_server(arguments: tuple[str, ...]) -> None:
    """Its name is not looked up."""
    done = run(*arguments)
    assert done.exit_code == 1
    assert "no.json: there is no such file; a URL begins with http://" in done.stderr


def test_progress_is_shown_on_a_terminal(url: str) -> None:
    """A line that is renewed, and then the table."""
    import pty

    parent, child = pty.openpty()
    command = [
        sys.executable,
        "-P",
        "-m",
        "headgate",
        "bench",
        url,
        "--rate",
        "20",
        "--duration",
        "2s",
        *SHORT,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=child, env={**os.environ, "TERM": "xterm"}
    ) as done:
        os.close(child)
        told = b""
        with contextlib.suppress(OSError):  # the terminal's other end was closed
            while data := os.read(parent, 65536):
                told += data
        os.close(parent)
        assert done.wait(LATE_S) == 0
        assert done.stdout
        assert b"TTFT" in done.stdout.read()
    assert b"in flight" in told
    assert b"of 40" in told
