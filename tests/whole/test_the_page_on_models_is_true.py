"""The commands of docs/models.md print what the page says, on the machine that it starts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "models.md").read_text()
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.whole


def commands():
    """Each command with the text below it."""
    for block in BLOCK.findall(PAGE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def steady(text):
    """Without ages, times and the names that controllers make up; columns are as wide as their texts."""
    text = re.sub(r"\b\d+m?\d*s\b", "AGE", text)
    text = re.sub(r"\(\d+\.\d s\)", "(TIME)", text)
    text = re.sub(r"tiny-vllm-[a-z0-9]+-[a-z0-9]+", "tiny-vllm-POD", text)
    return re.sub(r" +", " ", text).strip() + "\n"


def pattern(text):
    """A line of three dots stands for any lines."""
    parts = re.split(r"^\.\.\.\n", steady(text), flags=re.MULTILINE)
    return re.compile(r"(?:.*\n)*".join(map(re.escape, parts)))


def test_commands_print_what_the_page_says(models):
    """From the first to the last."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "HEADGATE_STATE": str(models.state)}
    environment.pop("KUBECONFIG", None)
    found = list(commands())
    assert len(found) >= 8
    for command, output in found:
        done = subprocess.run(
            ["bash", "-c", command.replace("http://127.0.0.1:8080", models.url)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=180,
        )
        assert pattern(output).fullmatch(steady(done.stdout)), f"{command}\n{done.stdout}"


def test_each_example_is_listed():
    """With a link."""
    files = {file.name for name in ("models", "images") for file in (ROOT / "examples" / name).glob("*.yaml")}
    assert {name for name in files if f"{name}](" not in PAGE} == set()
