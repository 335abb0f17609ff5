"""Fifteen seconds of the soak, at a small rate: all requests explained, nothing grown, nothing left."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole

SOAK = Path(__file__).resolve().parents[2] / "bench" / "soak.py"


@pytest.mark.timeout(180)
def test_fifteen_seconds():
    """With faults, changes of objects each second, and workers killed, the verdict is good."""
    run = subprocess.run(
        [sys.executable, SOAK, "--seconds", "15", "--rate", "40", "--kill-every", "5", "--faults", "0.2"],
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"\b[1-9]\d* workers killed", run.stdout), run.stdout
