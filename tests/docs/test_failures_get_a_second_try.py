"""What tools/test_again.sh makes of failures, as merges run it."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "test_again.sh"
FAILS_ONCE = """
from pathlib import Path

def test_once():
    tried = Path("tried")
    is_first = not tried.exists()
    tried.touch()
    assert not is_first

def test_well():
    Path("well").write_text(Path("well").read_text() + "x" if Path("well").exists() else "x")
"""
FAILS = """
import pytest

@pytest.mark.parametrize("number", range(%d))
def test_never(number):
    assert False
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")

    def run(text):
        (tmp_path / "test_it.py").write_text(text)
        return subprocess.run(
            [TOOL, sys.executable, "-q"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    return run


def test_a_test_that_fails_once_is_named(run, tmp_path):
    found = run(FAILS_ONCE)
    assert found.returncode == 0, found.stdout + found.stderr
    told = found.stdout.partition("those that pass now are unreliable:\n")[2]
    assert told.startswith("test_it.py::test_once\n")
    assert "1 passed" in told
    assert (tmp_path / "well").read_text() == "x"


def test_a_test_that_fails_again_fails_the_run(run):
    found = run(FAILS % 1)
    assert found.returncode == 1
    assert found.stdout.count("1 failed") == 2


def test_many_failures_are_not_tried_again(run):
    found = run(FAILS % 6)
    assert found.returncode == 1
    assert found.stdout.count("6 failed") == 1


def test_what_is_no_test_fails_at_once(run):
    found = run("import what_is_not_there")
    assert found.returncode == 2
    assert "Once more" not in found.stdout
