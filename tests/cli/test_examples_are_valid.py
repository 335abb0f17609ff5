"""Every example passes `headgate validate`, and every file of images says what a node understands."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from headgate import api, node
from headgate.cli import main
from headgate.controllers.model import ModelSettings, Observed, children_of
from headgate.node import images

EXAMPLES = Path(__file__).parents[2] / "examples"
IMAGES = sorted((EXAMPLES / "images").glob("*.yaml"))
OTHERS = {"gateway.yaml", "fleet.yaml", "envoy.yaml", "providers.yaml"}
"""Settings of the gateway, of a simulation, and of Envoy, and external providers."""
MIGRATION = EXAMPLES / "migration"
"""Objects of other projects, for `headgate import`."""
MANIFESTS = sorted(
    file
    for file in EXAMPLES.rglob("*.yaml")
    if file not in IMAGES and file.name not in OTHERS and MIGRATION not in file.parents
)


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: str(file.relative_to(EXAMPLES)))
def test_an_example_is_valid(file: Path) -> None:
    """Without errors and without warnings."""
    result = CliRunner().invoke(main, ["validate", "--strict", "-f", str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("file", IMAGES, ids=lambda file: file.stem)
def test_a_file_of_images_is_valid(file: Path) -> None:
    """With directories that are there."""
    known = node.parse_images(yaml.safe_load(file.read_text()), str(file))
    assert all(program.wraps for program in known.programs)


ADDRESS = ["--host", "ADDRESS", "--port", "8000"]
PROGRAMS = {
    "mlx-lm": ("mlx_lm.server", ["--model", "WEIGHTS", *ADDRESS]),
    "llama-cpp": (
        "llama-server",
        ["--model", "WEIGHTS/q8.gguf", *ADDRESS, "--alias", "qwen-gguf", "--metrics"],
    ),
    "own-vllm": ("python", ["-m", "vllm.entrypoints.openai.api_server", "--model", "WEIGHTS", *ADDRESS]),
}
"""The program of each example, and its first arguments."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_engine_of_your_own_gets_the_arguments_that_it_knows(name: str, tmp_path: Path) -> None:
    """The container of the example, with its file of images, starts the program as its users would."""
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "q8.gguf").touch()
    program, expected = PROGRAMS[name]
    (tmp_path / program).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / program).chmod(0o755)
    text = (EXAMPLES / "images" / f"{name}.yaml").read_text().replace("/opt/vllm/bin", str(tmp_path))
    [container] = _engines(EXAMPLES / "models" / f"{name}.yaml")
    known = node.parse_images(yaml.safe_load(text), name)
    words = images.command_of(container, known.find(container.image))
    weights = words[words.index("--model") + 1]
    told = {weights: str(tmp_path / "weights"), "$(POD_IP)": "ADDRESS"}
    done = subprocess.run(
        [told.get(word, word) for word in words],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    given = [word.replace(str(tmp_path / "weights"), "WEIGHTS") for word in done.stdout.splitlines()]
    assert given[: len(expected)] == expected


def _engines(file: Path) -> list[api.Container]:
    """The containers of the engines of a Model, as its controller makes them."""
    manifest = yaml.safe_load(file.read_text())
    manifest["metadata"]["uid"] = "u"
    model = msgspec.convert(manifest, api.Model)
    made = children_of(model, ModelSettings(), Observed())
    assert made.problems == ()
    deployments = [child.manifest for child in made.children if child.kind is api.Deployment]
    return [
        msgspec.convert(each, api.Container)
        for deployment in deployments
        for each in deployment["spec"]["template"]["spec"]["containers"]
        if each["name"] == "engine"
    ]
