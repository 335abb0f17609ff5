"""docs/model-engines.md has the images, connectors and defaults as they are in the code."""

import re
from pathlib import Path

import pytest

from headgate.controllers.model import pods, routes, settings, volumes
from headgate.engines import known, sglang, vllm, vllm_transfer
from headgate.engines.launch import DEFAULT_PORT, Setup

PAGE = (Path(__file__).parents[2] / "docs" / "model-engines.md").read_text()
TYPES = ("vLLM", "vLLMDisaggregated", "SGLang", "MindIE", "MindIEDisaggregated")


def rows(heading):
    """The rows of the first table below a heading, as cells."""
    text = PAGE.split(f"{heading}\n", 1)[1]
    table = re.search(r"^\|.*?\n\n", text, re.M | re.S)
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table[0].strip().splitlines()[2:]
    ]


@pytest.mark.parametrize("kind", TYPES)
def test_images_are_those_of_the_engines(kind):
    """With their versions."""
    (row,) = [row for row in rows("## Types of backends") if row[0] == f"`{kind}`"]
    launcher = known.launcher(kind)
    assert row[1] == launcher.engine.name
    assert row[2] in (f"`{launcher.image}`", "the same")
    assert f"`{launcher.image}`" in PAGE


def test_every_connector_is_in_it():
    """With what it means for the ModelServer."""
    written = {
        name.strip("` "): row[1].strip("`")
        for row in rows("### Prefill and decode apart")
        for name in row[0].split(",")
    }
    assert written.pop("MultiConnector")
    assert written == dict(vllm_transfer.CONNECTORS)


def test_numbers_are_those_of_the_code():
    """Ports, periods and limits."""
    assert f"`RUNTIME_PORT` | port of the [sidecar](runtime.md); {settings.RUNTIME_PORT} if unset" in PAGE
    assert f"The ModelServer keeps port {DEFAULT_PORT}." in PAGE
    assert f"A route holds {routes.MOST_ADAPTERS};" in PAGE
    assert f"for up to {pods.GRACE_S} s" in PAGE
    assert f"`{volumes.WEIGHTS}/HASH`" in PAGE
    assert f"`{vllm.RUN_TIME_ADAPTERS}`" in PAGE


def test_sizes_of_adapters_are_those_of_sglang():
    """Unless the user sets them."""
    arguments = sglang.launch(Setup(weights="/w", name="m", change_adapters=True)).program.args
    assert re.search(r"`max-lora-rank: (\d+)`", PAGE)[1] in arguments
    assert "`lora-target-modules: [all]`" in PAGE
    assert "all" in arguments


@pytest.mark.parametrize("flag", sorted(vllm.ONLY_SET))
def test_flags_without_a_negation_are_left_out(flag):
    """As the page says of each of them."""
    arguments = vllm.launch(Setup(weights="/w", name="m", config={flag: False})).program.args
    assert not [argument for argument in arguments if flag in argument]
    assert f"`{flag}`" in PAGE
