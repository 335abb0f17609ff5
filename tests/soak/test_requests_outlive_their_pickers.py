"""Three minutes of the soak of pickers: killed, terminated and stopped behind Envoy, and replaced."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole

SOAK = Path(__file__).resolve().parents[2] / "bench" / "soak_picker.py"


@pytest.mark.timeout(600)
def test_three_minutes():
    """Where Envoy fails open, no request fails; where it fails closed, each failure has a reason."""
    run = subprocess.run(
        [sys.executable, SOAK, "--minutes", "3", "--rate", "10", "--fault-every", "4", "--seed", "3"],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"faults: .*[1-9] x kill both.*without a fault: 0", run.stdout), run.stdout
    assert re.search(r"fails open\s+│ \d+\s+│ none", run.stdout), run.stdout
