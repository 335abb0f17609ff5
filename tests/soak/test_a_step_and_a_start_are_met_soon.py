"""The measurement of how fast autoscaling is: a step in load, and starts from zero, with real processes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole

BENCH = Path(__file__).resolve().parents[2] / "bench" / "autoscaling_live.py"
HANG_S = 30.0
"""More than a busy machine adds to a few seconds at most."""


@pytest.fixture(scope="module")
def measured():
    run = subprocess.run(
        [sys.executable, BENCH, "--quick", "--output", "json"],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(run.stdout)


@pytest.mark.timeout(900)
def test_a_step_to_eight_engines_is_met(measured):
    """Beyond what the start of an engine takes, and without a failed request."""
    step = measured["step"]
    assert step["failed"] == 0
    assert [replicas for _, replicas in step["writes"]][-1] == 8
    assert step["written_s"] < HANG_S
    assert step["beyond_start_s"] < HANG_S


@pytest.mark.timeout(900)
def test_a_model_at_zero_is_started_once(measured):
    """However many gateways ask for it; all requests are served soon after the engine is ready."""
    assert [each["model"] for each in measured["wakes"]] == ["ModelServer", "InferencePool", "Model"]
    for wake in measured["wakes"]:
        assert wake["writes"] == [1]
        assert (wake["served"], wake["failed"]) == (6, 0)
        assert wake["answered_s"] < HANG_S
