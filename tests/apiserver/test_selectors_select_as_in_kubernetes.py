"""Label selectors by example and against a reference; JSONPaths of printer columns."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.apiserver import errors, selectors
from headgate.apiserver.jsonpath import Budget, JSONPath
from headgate.apiserver.selectors import Fields, Selectable
from headgate.apiserver.storage import Key, Stored

LABELS = ("metadata.name", "metadata.namespace", "status.phase", "spec.ok")
NAMES = Fields({label: Selectable(tuple(label.split("."))) for label in LABELS}, "not supported: {label}")
DEEP = Fields({"spec.ok.deep": Selectable(("spec", "ok", "deep"))}, "not supported: {label}")


def stored(labels: dict[str, str] | None = None, **rest: Any) -> Stored:
    body = {"metadata": {"name": "n", "labels": labels or {}}} | rest
    return Stored(Key("things", "", "n"), 1, msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a!=1", {}, True),
        ("a in (1, 2)", {"a": "2"}, True),
        ("a in (1,2),b", {"a": "2"}, False),
        ("a notin (1)", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("! a", {}, True),
        ("a=", {"a": ""}, True),
        ("a in ()", {"a": ""}, True),
        ("x.y/a=1 , b!=2", {"x.y/a": "1"}, True),
        ("a>5", {"a": "6"}, True),
        ("a<5", {"a": "x"}, False),
        ("in in (in)", {"in": "in"}, True),
    ],
)
def test_label_selectors(text: str, labels: dict[str, str], expected: bool) -> None:
    """Equality, sets, existence, order, and all of them together."""
    assert selectors.parse(text, None, NAMES).matches(stored(labels)) is expected


@pytest.mark.parametrize("text", ["a=b=c", "=x", "a in b", "a in (b", "a,,b", "a b", "(a)", "é=1"])
def test_a_selector_that_is_none_is_refused(text: str) -> None:
    """What Kubernetes' grammar does not have is a bad request."""
    with pytest.raises(errors.StatusError) as refused:
        selectors.parse(text, None, NAMES)
    assert refused.value.code == 400


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["1", "2"]), max_size=3)
REQUIREMENTS = st.tuples(
    st.sampled_from(["in", "notin"]), st.sampled_from("abc"), st.sets(st.sampled_from(["1", "2"]))
)


@given(LABELS, st.lists(REQUIREMENTS, min_size=1, max_size=3))
def test_sets_are_what_they_say(labels: dict[str, str], requirements: list[Any]) -> None:
    """A selector matches exactly when each of its requirements does."""
    text = ",".join(f"{key} {word} ({','.join(sorted(values))})" for word, key, values in requirements)
    held = [(labels.get(key) in (values or {""})) is (word == "in") for word, key, values in requirements]
    assert selectors.parse(text, None, NAMES).matches(stored(labels)) is all(held)


def test_field_selectors_compare_text() -> None:
    """A field that is missing is the empty string, a boolean its word."""
    pod = stored(status={"phase": "Running"}, spec={"ok": True})
    for text, expected in (
        ("status.phase=Running", True),
        ("status.phase!=Running", False),
        ("status.phase==Running,metadata.name=n", True),
        ("spec.ok=true", True),
        ("spec.ok=", False),
    ):
        assert selectors.parse(None, text, NAMES).matches(pod) is expected


def test_a_name_is_compared_without_decoding_the_object() -> None:
    """The name and the namespace are those of the key."""
    selector = selectors.parse(None, "metadata.name=n,metadata.namespace!=other", NAMES)
    assert selector.matches(Stored(Key("things", "here", "n"), 1, b"never decoded"))
    assert not selector.matches(Stored(Key("things", "other", "n"), 1, b"never decoded"))


@pytest.mark.parametrize("spec", [{}, [], "text", None, {"ok": {"no": "text"}}])
def test_a_field_that_is_not_where_it_should_be_is_missing(spec: Any) -> None:
    """A path that leads through a list, a text or null finds nothing."""
    found = selectors.parse(None, "spec.ok.deep=", DEEP).matches(stored(spec=spec))
    assert found is True


@pytest.mark.parametrize(("labels", "fields"), [("a=1", None), (None, "status.phase=Running")])
def test_many_selectors_read_a_large_object_once(labels: str | None, fields: str | None) -> None:
    """A hundred watchers take as long for a large object as a few times reading it."""
    data = {f"key-{number}": "x" * 12 for number in range(36_000)}
    large = stored({"a": "1"}, data=data, status={"phase": "Running"})
    began = time.process_time()
    for _ in range(5):
        large.decode()
    reading_s = time.process_time() - began
    watchers = [selectors.parse(labels, fields, NAMES) for _ in range(100)]
    began = time.process_time()
    assert all(watcher.matches(large) for watcher in watchers)
    assert time.process_time() - began < reading_s


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.a", [1]),
        (".spec.list[0].n", ["x"]),
        (".spec.list[-1].n", ["y"]),
        (".spec.list[*].n", ["x", "y"]),
        ('.spec.list[?(@.n=="y")].v', [2]),
        (".spec.list[?(@.v==2)].n", ["y"]),
        ('.spec.list[?(@.n!="y")].v', [True]),
        (r".metadata.annotations.x\.y/z", ["deep"]),
        (".metadata.annotations['x.y/z']", ["deep"]),
        (".spec.none.deeper", []),
        (".spec.a[0]", []),
    ],
)
def test_printer_columns_find_their_values(path: str, expected: list[Any]) -> None:
    """Fields, indexes, wildcards, filters and quoted names."""
    obj = {
        "metadata": {"annotations": {"x.y/z": "deep"}},
        "spec": {"a": 1, "list": [{"n": "x", "v": True}, {"n": "y", "v": 2}]},
    }
    assert list(JSONPath.parse(path).find(obj, Budget())) == expected


@pytest.mark.parametrize("path", ["", "spec", ".spec[", ".a[?(@.b)]", ".a b", ".a..b", "{.a}"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    """A definition with such a column is refused before it can print nonsense."""
    with pytest.raises(ValueError, match="JSONPath"):
        JSONPath.parse(path)
