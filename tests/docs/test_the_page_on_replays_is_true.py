"""docs/simulate-trace.md: its commands print what it says, but for the numbers, which follow the policies."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.cli.simulate import fleet_file
from headgate.cli.simulate.results import Run
from headgate.cli.simulate.trace import trace
from headgate.traffic.traces import TimedRequest
from headgate.traffic.workloads import WORKLOADS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "simulate-trace.md").read_text()
COMMANDS = re.findall(r"^```console\n\$ (headgate .*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)


def without_numbers(text: str) -> list[list[str]]:
    """Words of each line, every number alike."""
    return [re.sub(r"[+-]?\d[\d,.]*%?|(?<=  )-(?=  )", "N", line).split() for line in text.splitlines()]


@pytest.mark.parametrize(("command", "output"), COMMANDS)
def test_a_command_prints_what_the_page_says(command, output):
    """The same columns, policies and notes."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert without_numbers(done.stdout) == without_numbers(output)


def test_the_fleet_on_the_page_can_be_read(tmp_path):
    """Every field of it."""
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])
    request = TimedRequest(at_s=0, prompt_tokens=10, output_tokens=10)
    read, settled = fleet_file.from_file(str(fleet), [request])
    assert settled.problems == []
    assert settled.fleet.groups[0].count == 3
    for name in (*read.__struct_fields__, *read.groups[0].__struct_fields__):
        assert f"{name}:" in PAGE
    for name in read.faults[0].__struct_fields__:
        assert re.search(rf"{name}[:`]", PAGE)


def test_every_option_and_workload_is_on_the_page():
    """And every field of a run, and nothing that is not there."""
    options = {name for option in trace.params for name in option.opts if name.startswith("--")}
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert told <= options
    assert options - told <= {"--workloads", "--seed", "--slo-tpot", "--set", "--compare", "--output"}
    assert all(f"`{name}`" in PAGE for name in WORKLOADS)
    assert all(f"`{name}`" in PAGE for name in Run.__struct_fields__)
