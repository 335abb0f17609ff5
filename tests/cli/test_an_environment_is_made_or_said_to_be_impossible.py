"""`make up` makes its environment whole or not at all, and says which package is missing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "environment.sh"


def environment(python: object, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, str(python), str(directory)], capture_output=True, text=True, timeout=120)


def has_pip(directory: Path) -> bool:
    return subprocess.run([directory / "bin" / "python", "-c", "import pip"], timeout=60).returncode == 0


@pytest.fixture
def without_ensurepip(tmp_path: Path) -> Path:
    """A Python as Debian installs it without python3-venv."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("import sys\nsys.modules['ensurepip'] = None\n")
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path / "site"} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_a_missing_package_is_named(tmp_path, without_ensurepip):
    """By its name in Debian, and nothing is made."""
    done = environment(without_ensurepip, tmp_path / "venv")
    assert done.returncode == 1
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"sudo apt-get install python{version}-venv" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_make_up_says_so(tmp_path, without_ensurepip):
    """The message is the last that one sees before make's own."""
    for name in ("Makefile", "tools", "requirements.lock", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    done = subprocess.run(
        ["make", "up", f"PYTHON={without_ensurepip}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "-venv" in done.stderr
    assert "Installing" not in done.stdout
    assert not (tmp_path / ".venv").exists()


def test_no_python_at_all(tmp_path):
    """The variable that names another one is told."""
    done = environment(tmp_path / "none", tmp_path / "venv")
    assert done.returncode == 1
    assert "make PYTHON=" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_what_is_no_python_is_said_to_be_none(tmp_path):
    """A program that ends well and says nothing has no version either."""
    done = environment("/bin/true", tmp_path / "venv")
    assert done.returncode == 1
    assert done.stderr == (
        "'/bin/true' is no Python: it does not say its version. Name one: make PYTHON=python3.12\n"
    )
    assert not (tmp_path / "venv").exists()


def test_a_half_made_environment_is_completed(tmp_path):
    """One without pip, as an earlier try without python3-venv left it."""
    directory = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True, timeout=60)
    assert not has_pip(directory)
    assert environment(sys.executable, directory).returncode == 0
    assert has_pip(directory)


def test_a_broken_environment_is_made_anew(tmp_path):
    """One whose interpreter was removed from the machine."""
    directory = tmp_path / "venv"
    (directory / "bin").mkdir(parents=True)
    (directory / "bin" / "python").symlink_to("/nothing/here")
    assert environment(sys.executable, directory).returncode == 0
    assert has_pip(directory)


def test_a_whole_environment_is_left_alone(tmp_path, without_ensurepip):
    """Nobody needs ensurepip any more once there is an environment."""
    directory = tmp_path / "venv"
    assert environment(sys.executable, directory).returncode == 0
    (directory / "mine").touch()
    done = environment(without_ensurepip, directory)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (directory / "mine").exists()


def test_ctrl_c_while_packages_are_installed_prints_no_traceback(tmp_path):
    """Python would say where it was interrupted; the exit code of other commands is passed on."""
    quietly = ROOT / "tools" / "quietly.sh"
    code = f"import pathlib, time; pathlib.Path({str(tmp_path / 'begun')!r}).touch(); time.sleep(60)"
    with subprocess.Popen(
        [quietly, sys.executable, "-c", code], start_new_session=True, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert subprocess.run([quietly, sys.executable, "-c", "raise SystemExit(3)"], timeout=60).returncode == 3
    recipes = (ROOT / "Makefile").read_text()
    assert recipes.count("-m pip") == recipes.count("quietly.sh") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_leaves_nothing(tmp_path, number):
    """The next run begins anew; no traceback says where Python was, and nothing of it goes on."""
    directory = tmp_path / "venv"
    waits = "import os, sys, time; os.makedirs(sys.argv[1]); time.sleep(60)"
    python = tmp_path / "slow"
    makes = f"""case "$2" in venv) exec {sys.executable} -c '{waits}' "$3";; esac"""
    python.write_text(f'#!/bin/sh\n{makes}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with subprocess.Popen(
        [SCRIPT, str(python), str(directory)], start_new_session=True, stderr=subprocess.PIPE, text=True
    ) as process:
        while not directory.exists():
            time.sleep(0.01)
        os.killpg(process.pid, number)  # as the terminal does
        _, said = process.communicate(timeout=60)  # which ends as nobody has the pipe any more
        assert process.returncode != 0
    assert said == ""
    assert not directory.exists()
