"""docs/how-to: whoever follows a page in its order gets what it promises.

A page is followed in a copy of the working tree: its files are written, its diffs applied, its commands run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "how-to").glob("*.md"))
COPIED = ("src", "tests", "tools", "docs", "deploy", "examples", "pyproject.toml", "Makefile")
BLOCK = re.compile(r"^(````?)(\w+)\n(.*?)^\1$", re.M | re.S)
CREATE = re.compile(r"\bCreate\s`([^`]+)`")
CHANGE = re.compile(r"\b[Ii]n\s`([^`]+)`")
GENERATED = (
    ("headgate", "crds", "--dir", "deploy/crds"),
    ("python", "tools/reference_tables.py"),
    ("python", "tools/deployment.py"),
)
"""What `make generated` runs for a kind."""


class Step(NamedTuple):
    """A block of the page, and the paragraph before it."""

    language: str
    text: str
    before: str


def steps(page: str) -> Iterator[Step]:
    """In the order of the page."""
    end = 0
    for block in BLOCK.finditer(page):
        yield Step(block[2], block[3], page[end : block.start()].strip().rpartition("\n\n")[2])
        end = block.end()


@dataclass
class Copy:
    """A working tree to follow a page in."""

    root: Path

    def follow(self, page: Path) -> list[str]:
        """Does what the page says; returns the commands that it ran. Fails on the first step that fails."""
        ran = []
        for step in steps(page.read_text()):
            match step.language:
                case "diff":
                    self._change(CHANGE.findall(step.before)[-1], step.text)
                case "console":
                    ran += self._run(step.text)
                case _:
                    self._create(CREATE.findall(step.before)[-1], step.text)
        return ran

    def _create(self, path: str, text: str) -> None:
        file = self.root / path
        assert not file.exists(), f"{path} exists already"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def _change(self, path: str, diff: str) -> None:
        file = self.root / path
        old = "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] != "+")
        new = "".join(line[1:] for line in diff.splitlines(keepends=True) if line[0] != "-")
        text = file.read_text()
        assert text.count(old) == 1, f"{path} has these lines {text.count(old)} times, not once:\n{old}"
        file.write_text(text.replace(old, new))

    def _run(self, text: str) -> Iterator[str]:
        """Each line `$ command`; the lines below it are its output, if the page shows any."""
        for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            done = [self._done(words) for words in self._meant(shlex.split(command))]
            shown = "".join(each.stdout for each in done)
            assert not any(each.returncode for each in done), f"{command}\n{shown}{done[-1].stderr}"
            assert output in ("", shown), f"{command}\n{shown}"
            yield command

    def _meant(self, words: list[str]) -> list[list[str]]:
        """What stands for `make` here, where there is no other environment to install."""
        match words:
            case ["make", "unit", arguments]:
                return [["python", "-m", "pytest", "-q", *shlex.split(arguments.removeprefix("ARGS="))]]
            case ["make", "generated"]:
                return [list(each) for each in GENERATED]
        assert words[0] == "headgate", words
        return [words]

    def _done(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "PYTHONPATH": str(self.root / "src")}
        environment.pop("PYTEST_XDIST_WORKER", None)
        return subprocess.run(
            words, cwd=self.root, env=environment, capture_output=True, text=True, timeout=300
        )


def copy(to: Path) -> Copy:
    """A copy of the working tree, without what was built in it."""
    left_out = shutil.ignore_patterns("__pycache__", "*.so", "*.pyc", ".*_cache")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, to / name, ignore=left_out)
        else:
            shutil.copy(source, to / name)
    return Copy(to)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_can_be_followed(page: Path, tmp_path: Path) -> None:
    """Its tests pass in the copy, and its commands print what it shows."""
    ran = copy(tmp_path).follow(page)
    assert any(command.startswith("make unit ") for command in ran)
