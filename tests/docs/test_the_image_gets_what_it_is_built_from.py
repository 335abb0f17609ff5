"""The container image is built from files that are there, with a builder that is there."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copied() -> set[str]:
    """What the first stage of the Dockerfile copies from the clone."""
    stage = (ROOT / "deploy" / "image" / "Dockerfile").read_text().split("\nFROM ")[1]
    return {name for line in re.findall(r"^COPY (.+) \S+$", stage, re.M) for name in line.split()}


def test_the_builder_sends_what_the_image_copies_and_nothing_else():
    """All of it is there."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == copied()
    assert all((ROOT / name).exists() for name in copied())


def test_the_builder_is_told_what_the_labels_say():
    """And the time of files in the wheel. The base image is its only other argument."""
    declared = set(re.findall(r"^ARG (\w+)", (ROOT / "deploy" / "image" / "Dockerfile").read_text(), re.M))
    told = set(re.findall(r"--build-arg (\w+)=\"", (ROOT / "tools" / "image.sh").read_text()))
    assert declared - told == {"PYTHON_IMAGE"}
    assert told <= declared


def test_without_a_builder_it_says_which_ones_there_are(tmp_path):
    """One that is installed and does not work does not count; what it says is shown."""
    for name in ("bash", "dirname", "sed", "tail"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")

    def build() -> subprocess.CompletedProcess[str]:
        command = [ROOT / "tools" / "image.sh", "headgate"]
        return subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True)

    ran = build()
    assert ran.returncode == 1
    assert "docker, podman or buildah" in ran.stderr
    (tmp_path / "docker").write_text("#!/usr/bin/env bash\necho no daemon >&2\nexit 1")
    (tmp_path / "docker").chmod(0o755)
    ran = build()
    assert ran.returncode == 1
    assert "docker is installed" in ran.stderr
    assert "no daemon" in ran.stderr
    (tmp_path / "podman").write_text('#!/usr/bin/env bash\necho "$@"')
    (tmp_path / "podman").chmod(0o755)
    ran = build()
    assert ran.returncode == 0
    assert ran.stdout.startswith("build --tag headgate --file deploy/image/Dockerfile")
    assert "Built headgate: image inspect" in ran.stdout
