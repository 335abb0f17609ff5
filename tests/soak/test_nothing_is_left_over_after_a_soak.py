"""Half a minute of the soak, at a small rate: every request explained, nothing grown, nothing left."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).resolve().parents[2] / "bench" / "soak.py"


@pytest.mark.timeout(180)
def test_half_a_minute():
    """With faults, changes of objects each second, and workers killed, the verdict is good."""
    run = subprocess.run(
        [sys.executable, SOAK, "--seconds", "30", "--rate", "40", "--kill-every", "9", "--faults", "0.2"],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"\b[1-9]\d* workers killed", run.stdout), run.stdout
