"""Half a minute of the soak of autoscaling: random load, with engines, the controller and gateways killed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole

SOAK = Path(__file__).resolve().parents[2] / "bench" / "soak_autoscaling.py"


@pytest.mark.timeout(600)
def test_half_a_minute():
    """No request fails, each kind of process was killed, and all goes to its minimum when the load ends."""
    run = subprocess.run(
        [sys.executable, SOAK, "--seconds", "30", "--rate", "1", "--kill-every", "4", "--seed", "3"],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"kills: \d+ of controllers, \d+ of engines, \d+ of gateways", run.stdout), run.stdout
