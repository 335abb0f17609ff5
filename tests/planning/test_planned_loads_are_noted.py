"""The load that a plan was made for is kept as text, and written again only if it has clearly changed."""

import pytest

from headgate.planning import planned_load
from headgate.planning.load import Load
from headgate.planning.planned_load import PlannedLoad

LOAD = Load(arrivals_per_s=10.0, prompt_tokens=512.0, output_tokens=256.0, cached_share=0.25)


def test_a_note_has_the_load_of_a_minute() -> None:
    """And gives it back, to four digits."""
    note = PlannedLoad.of(LOAD, idle=False)
    lengths = '"promptTokens":512.0,"outputTokens":256.0,"cachedShare":0.25,"promptSpread":0.0'
    text = f'{{"requestsPerMinute":600.0,{lengths}}}'
    assert note.written() == text
    assert planned_load.read(text) == note
    assert note.load == LOAD


def test_an_idle_model_has_no_requests() -> None:
    """Whatever is still measured."""
    note = PlannedLoad.of(LOAD, idle=True)
    assert (note.requests_per_minute, note.idle) == (0.0, True)
    assert planned_load.read(note.written()) == note


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '{"requestsPerMinute": -1}', "[" * 1000, "x" * 2000])
def test_other_texts_are_no_load(text: str | None) -> None:
    """People may have written them."""
    assert planned_load.read(text) is None


@pytest.mark.parametrize(
    ("changed", "is_clear"),
    [
        ({}, False),
        ({"arrivals_per_s": 10.9}, False),
        ({"arrivals_per_s": 11.5}, True),
        ({"arrivals_per_s": 0.0}, True),
        ({"prompt_tokens": 600.0}, True),
        ({"output_tokens": 250.0}, False),
        ({"output_tokens": 0.0}, True),
        ({"cached_share": 0.28}, False),
        ({"cached_share": 0.4}, True),
    ],
)
def test_a_tenth_is_a_clear_change(changed: dict[str, float], is_clear: bool) -> None:
    """Of arrivals and lengths; for caches, a twentieth of the prompt."""
    before = PlannedLoad.of(LOAD, idle=False)
    values = {"arrivals_per_s": 10.0, "prompt_tokens": 512.0, "output_tokens": 256.0, "cached_share": 0.25}
    due = PlannedLoad.of(Load(**{**values, **changed}), idle=False)
    assert planned_load.is_clear(before, due) is is_clear
    assert planned_load.is_clear(None, due)
    assert planned_load.is_clear(before, PlannedLoad.of(LOAD, idle=True))
