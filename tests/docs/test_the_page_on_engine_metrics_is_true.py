"""docs/engine-metrics.md has every name that is looked for, every state, and the settings as they are."""

from pathlib import Path
from typing import get_args

import msgspec

from headgate import engines, fleet
from headgate.gateway import GatewaySettings
from headgate.scheduling.homes import HOME_REQUESTS

PAGE = (Path(__file__).parents[2] / "docs" / "engine-metrics.md").read_text()


def names(value):
    """All names of metrics in a description of them."""
    if isinstance(value, bool | int):
        return set()
    if isinstance(value, str):
        return {value} if ":" in value or value.startswith("trtllm_") else set()
    if isinstance(value, msgspec.Struct):
        value = [getattr(value, field) for field in value.__struct_fields__]
    return {name for each in value or () for name in names(each)}


def test_every_metric_is_in_it():
    """Under the name of its engine; those with an underscore for the colon in a sentence."""
    # Those of MindIE have no prefix by which to tell them from labels.
    known = [engine for engine in engines.KNOWN if engine.metrics and engine.name != "MindIE"]
    assert len(known) >= 3
    for engine in known:
        found = names(engine.metrics)
        assert len(found) >= 3
        assert {
            name for name in found if f"`{name}`" not in PAGE and name.replace("_", ":", 1) not in found
        } == set()


def test_every_state_label_and_setting_is_in_it():
    """One that is added without a line there fails."""
    assert all(f"| `{state}` |" in PAGE for state in (*get_args(fleet.ReadingState), "off"))
    assert all(f"`{label}`" in PAGE for label in engines.POD_LABELS)
    assert f"More than {HOME_REQUESTS} requests" in PAGE or f"more than {HOME_REQUESTS} requests" in PAGE
    settings = GatewaySettings()
    assert f"at most {settings.engine_metrics.max_per_s} pages a second" in PAGE
    assert f"older than {settings.engine_metrics.stale_s:g} s" in PAGE
