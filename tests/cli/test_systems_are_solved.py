"""`headgate plan solve` prints plans, and every error of a description."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "planning" / "system.json"


def run(*arguments: str, given: str | None = None):
    return CliRunner().invoke(main, ["plan", "solve", *arguments], input=given, catch_exceptions=False)


def test_a_plan_is_printed_as_json() -> None:
    """With the names of the description, the totals by type, and the proof."""
    done = run(str(EXAMPLE), "-o", "json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    chat = found["allocations"]["chat-h100:default"]
    assert (chat["accelerator"], chat["numReplicas"], chat["maxBatch"], chat["cost"]) == ("H100", 1, 128, 400)
    assert chat["ttftAverage"] <= 500
    assert chat["itlAverage"] <= 24
    assert chat["load"]["arrivalRate"] + found["allocations"]["chat-l40s:default"]["load"]["arrivalRate"] == (
        pytest.approx(1900)
    )
    assert found["allocationByType"]["H100"] == {"count": 9, "limit": 12, "cost": 3600}
    assert (found["cost"], found["optimal"], found["gap"], found["unserved"]) == (4080, True, 0, {})


def test_the_reference_costs_more() -> None:
    """It plans each server for itself."""
    assert "Cost: 4360 cents per hour.\n" in run(str(EXAMPLE), "--reference").stdout
    assert json.loads(run(str(EXAMPLE), "--reference", "-o", "json").stdout)["optimal"] is None


def test_a_description_may_come_from_standard_input() -> None:
    """As `-`; what is not served is told with the reason."""
    document = json.loads(EXAMPLE.read_text())
    document["system"]["capacityData"]["count"] = [{"type": "L40S", "count": 1}]
    done = run("-", given=json.dumps(document))
    assert "reports:default is not served: not enough accelerators; it could run on H100." in done.stdout


def test_all_errors_are_printed() -> None:
    """Each in a line with its field."""
    done = run("-", given='{"system": {"capacityData": {"count": [{"type": "", "count": -1, "kind": "a"}]}}}')
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 3
    assert "standard input: system.capacityData.count[0].count: Invalid value: -1" in done.stderr


@pytest.mark.parametrize("percentile", ["0", "100", "abc", "nan"])
def test_percentiles_out_of_range_are_refused(percentile) -> None:
    """With what is possible."""
    done = run(str(EXAMPLE), "--percentile", percentile)
    assert done.exit_code == 2
    assert "is neither a number from 1 to 99.99 nor mean" in done.stderr


def test_the_mean_needs_no_more_than_a_percentile() -> None:
    """Nor a low percentile than a high one."""
    costs = [
        json.loads(run(str(EXAMPLE), "--percentile", percentile, "-o", "json").stdout)["cost"]
        for percentile in ("mean", "90", "99")
    ]
    assert costs == sorted(costs)


def test_the_solver_prints_nothing_of_its_own() -> None:
    """The output of the process is the plan."""
    command = [sys.executable, "-P", "-m", "headgate", "plan", "solve", str(EXAMPLE), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout)["optimal"] is True
    assert done.stderr == ""
