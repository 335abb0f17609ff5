"""A gateway that is given no engines, files or API server does not start, and says what to give it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = "name engines by --endpoint URL, or files of objects by --objects"


def says(home: Path, *flags: str) -> str:
    """The output of a gateway that must not start, on a machine without a kubeconfig."""
    ports = ("--port", "0", "--metrics-port", "0", "--admin-port", "0")
    environment = {**os.environ, "HOME": str(home)}
    environment.pop("KUBECONFIG", None)
    done = subprocess.run(
        [sys.executable, "-m", "headgate", "gateway", *ports, *flags],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=home,
        env=environment,
    )
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_nothing_is_given(tmp_path):
    """As by those who try it first."""
    told = says(tmp_path)
    assert "Error: no cluster connection" in told
    assert WITHOUT in told


@pytest.mark.parametrize("content", ["", "a: b"])
def test_a_kubeconfig_is_given(tmp_path, content):
    """The error is about that file only: an API server is meant."""
    (tmp_path / "config").write_text(content)
    told = says(tmp_path, "--kubeconfig", "config")
    assert "Error: " in told
    assert WITHOUT not in told
