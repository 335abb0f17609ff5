"""docs/load-tool.md: its first command prints what it says, and its options and fields exist."""

import contextlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.cli.bench import running
from headgate.cli.bench.command import bench
from headgate.loadtest import Results, http, records, streams
from headgate.loadtest.plan.dataset import MAX_BYTES
from headgate.loadtest.results import Client, Endpoint, Times
from headgate.traffic.workloads import WORKLOADS

PAGE = (Path(__file__).parents[2] / "docs" / "load-tool.md").read_text()
COMMANDS = [
    text.replace("\n", " ")
    for text in [
        *re.findall(r"^\$ headgate bench (.*)$", PAGE, re.MULTILINE),
        *re.findall(r"`headgate bench (.*?)`", PAGE, re.DOTALL),
    ]
]


@contextlib.contextmanager
def engine() -> Iterator[str]:
    """That of the page, at another port."""
    [command] = re.findall(r"^headgate (simulate engine .*)$", PAGE, re.MULTILINE)
    words = [sys.executable, "-P", "-m", "headgate", *command.split(), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().split(" on ")[1].strip()
        finally:
            process.terminate()


def shape(text: str) -> list[list[str]]:
    """Rows and columns, without figures, lines, and notes on a busy machine."""
    lines = [re.sub(r"─+|[\d.,]+%?( m?s)?", " ", line) for line in text.splitlines()]
    return [line.split() for line in lines if line.strip() and not line.startswith("note:")]


def test_the_first_command_prints_what_the_page_says() -> None:
    """For a shorter time."""
    command, shown = re.findall(r"^\$ headgate (bench .*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)[0]
    assert "--duration 10s" in command
    with engine() as url:
        words = command.replace("http://127.0.0.1:8000", url).replace("--duration 10s", "--duration 2s")
        done = CliRunner().invoke(main, words.split(), catch_exceptions=False)
    assert done.exit_code == 0
    printed = (done.stderr + done.stdout).replace(url, "http://127.0.0.1:8000")
    assert shape(printed) == shape(shown)


@pytest.mark.parametrize("command", COMMANDS)
def test_all_commands_are_valid(command: str) -> None:
    """With values that the options take."""
    assert bench.make_context("bench", shlex.split(command)).params["target"]


def test_all_options_exist() -> None:
    """Those that the page names, and those of the command are on the page."""
    known = {name for option in bench.params for name in (*option.opts, *option.secondary_opts)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    others = {"--state", "--port", "--metrics-port", "--admin-port", "--scheduling-policy", "--profile"}
    assert named - known <= others
    undocumented = {name for name in known if name.startswith("--")} - named
    assert undocumented <= {
        "--output",
        "--header",
        "--format",
        "--block-tokens",
        "--no-drop",
        "--explain",
    } | {
        "--stream",
        "--ignore-eos",
    }


def test_all_fields_and_workloads_are_named() -> None:
    """The table of JSON, and the workloads."""
    fields = set(Results.__struct_fields__)
    table = PAGE.split("| field of a run |")[1].split("\n\n")[0]
    first_columns = " ".join(row.split("|")[1] for row in table.splitlines()[2:])
    assert set(re.findall(r"`(\w+)`", first_columns)) <= fields
    named = set(re.findall(r"`(\w+)`", table)) - fields
    assert named <= {each for kind in (Times, Endpoint, Client) for each in kind.__struct_fields__}
    assert all(
        f"`{name}`" in PAGE or f"--workload {name}" in PAGE for name in WORKLOADS if name != "independent"
    )


def test_limits_and_codes_are_those_of_the_code() -> None:
    """Each number."""
    assert f"| {running.MISSED} | fewer requests" in PAGE
    assert (
        f"{records.MAX_WINDOWS} windows, {records.MAX_ENDPOINTS} endpoints and {records.MAX_KINDS} kinds"
        in PAGE
    )
    assert f"of more than {records.MAX_RECORDS:,} requests" in PAGE
    assert f"at most {http.MAX_RESPONSE_BYTES >> 20} MiB" in PAGE
    assert f"head {http.MAX_HEAD_BYTES >> 10} KiB" in re.sub(r"\s+", " ", PAGE)
    assert f"event {streams.MAX_EVENT_BYTES >> 20} MiB, and a dataset {MAX_BYTES >> 30} GiB" in PAGE
    independent = msgspec.structs.asdict(WORKLOADS["independent"]())
    assert f"{independent['prompt_tokens']} prompt and {independent['output_tokens']} output tokens" in PAGE
    assert f"standard deviation {independent['variation']} times" in PAGE
