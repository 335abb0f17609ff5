"""Forms of other versions: whatever an object has is found in the outputs, or the report names it."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.api import forms
from headgate.api.forms import Conversion, Form, paths

FORMS = list(forms.FORMS.items())
KEYS = st.sampled_from(["name", "labels", "a.b", "x[0]", "port", "matchLabels", "anything"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def own_paths(form: Form) -> list[paths.Steps]:
    """Paths of the form's tables, and some of the kinds that it becomes."""
    found = [paths.parsed(field.path) for field in form.fields]
    for output in form.outputs:
        schema = forms.converting._schemas()[output.resource]["properties"]["spec"]
        found += [("spec", *steps) for steps in itertools.islice(in_schema(schema), 200)]
    return found


def in_schema(schema: dict[str, Any], depth: int = 0) -> Any:
    for name, inner in (schema.get("properties") or {}).items():
        yield (name,)
        if depth < 5:
            yield from ((name, *rest) for rest in in_schema(inner, depth + 1))
    if isinstance(schema.get("items"), dict):
        yield from ((paths.ANY_ITEM, *rest) for rest in in_schema(schema["items"], depth + 1))


@st.composite
def objects(draw: st.DrawFn, identity: tuple[str, str], form: Form) -> dict[str, Any]:
    """An object with a few fields of the form and a few unknown ones; each value occurs once."""
    numbers = itertools.count()
    obj: dict[str, Any] = {"apiVersion": identity[0], "kind": identity[1], "metadata": {"name": "x"}}
    for pattern in draw(st.lists(st.sampled_from(own_paths(form)), min_size=1, max_size=8)):
        marks = [step for step in pattern if step in (paths.ANY_ITEM, paths.ANY_KEY)]
        filled = paths.filled(
            pattern,
            tuple(draw(st.integers(0, 2) if mark == paths.ANY_ITEM else KEYS) for mark in marks),
        )
        below = tuple(draw(st.lists(KEYS, max_size=1)))
        forms.converting._put(obj, (*filled, *below), f"value {next(numbers)}")
    compact: dict[str, Any] = forms.converting._compact(obj)
    return compact


def is_in(path: str, other: str) -> bool:
    """Whether the field is the other one, or inside it."""
    return path == other or path.startswith((f"{other}.", f"{other}["))


def told(conversion: Conversion, path: str) -> bool:
    of_differences = any(is_in(path, each.path) for each in conversion.differences)
    return of_differences or any(is_in(path, each.path) for each in conversion.changes if not each.to)


@pytest.mark.parametrize(("identity", "form"), FORMS, ids=lambda each: str(each)[:60])
@given(data=st.data())
def test_every_value_is_taken_or_told(identity: tuple[str, str], form: Form, data: st.DataObject) -> None:
    """And nothing is there that was neither in the object nor told."""
    obj = data.draw(objects(identity, form))
    before = json.dumps(obj)
    conversion = forms.convert(obj, form)
    assert json.dumps(obj) == before
    values = {
        value
        for output in conversion.objects
        for steps, value in paths.leaves(output)
        if steps[0] == "spec" and value != []  # a list of which every item is left out
    }
    given_values = dict(paths.leaves({key: obj[key] for key in obj if key == "spec"}))
    for steps, value in given_values.items():
        assert value in values or told(conversion, paths.written(steps)), steps
    added = " ".join(each.note for each in conversion.changes if not each.path)
    assert all(json.dumps(value) in added for value in values - set(given_values.values()))


@pytest.mark.parametrize(("identity", "form"), FORMS, ids=lambda each: str(each)[:60])
@given(content=st.dictionaries(st.sampled_from(["spec", "metadata", "status", "x"]), ANY_JSON))
def test_nonsense_is_converted_too(identity: tuple[str, str], form: Form, content: dict[str, Any]) -> None:
    """Validation reports it; a conversion never fails."""
    obj = {"apiVersion": identity[0], "kind": identity[1], **content}
    conversion = forms.convert(obj, form)
    assert conversion.objects[0]["kind"] == form.outputs[0].resource.kind


def test_tables_name_fields_that_the_kinds_have() -> None:
    """Every target of a table is a field of the kind that it goes to."""
    for form in forms.FORMS.values():
        by_kind = {output.resource.kind: output.resource for output in form.outputs}
        for field in form.fields:
            for target in field.to:
                kind, _, path = target.rpartition(":")
                resource = by_kind[kind] if kind else form.outputs[0].resource
                steps = paths.filled(paths.parsed(path), (0,) * 9)
                assert forms.converting._unknown(forms.converting._schemas()[resource], steps) is None, target
