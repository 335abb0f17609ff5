"""The commands of these pages print what they say, one after the other."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> Iterator[tuple[str, str]]:
    """Each command with the text below it; lines that go on begin with "> "."""
    for block in _BLOCK.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.split("\n")
            more = [line[2:] for line in lines[1:] if line.startswith("> ")]
            output = [line for line in lines[1:] if not line.startswith("> ")]
            yield "\n".join([lines[0], *more]), "\n".join(output).strip("\n")


def steady(text: str) -> str:
    """Without what differs each time: ages and times."""
    text = re.sub(r"\b\d+s\b", "5s", text)
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "2026-01-01T00:00:00Z", text).strip("\n")


PAGES = [
    *("cli.md", "downloads.md", "explain.md", "inference-pool.md", "planning.md", "prefill-decode.md"),
    "rate-limits.md",
    *("migrate-from-kthena.md", "migrate-from-gie-llm-d.md", "migrate-from-wva.md"),
]


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_true(page: str, kubeconfig: Path, tmp_path: Path) -> None:
    """From the first command to the last."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path, "HOME": str(tmp_path)}
    for command, output in commands(ROOT / "docs" / page):
        if page.startswith("migrate") and "import -f" not in command:
            break  # the rest needs a cluster: tests/control_plane runs it
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        assert steady(done.stdout) == steady(output), command
