"""Values are what kubectl takes them for, and every value knows its place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.manifests import Mapping, place_of, plain, read
from headgate.cli.manifests.composing import compose
from headgate.cli.objects.printing import as_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("y", True), ("On", True), ("no", False), ("OFF", False), ("yEs", "yEs"),
        ("~", None), ("", None), ("Null", None),
        ("1", 1), ("+1", 1), ("-0", 0), ("0x1F", 31), ("0o17", 15), ("017", 15), ("0b11", 3), ("1_000", 1000),
        ("1e3", 1000), ("1.5", 1.5), ("50.0", 50), (".5", 0.5), ("08", 8), ("1e999", "1e999"),
        ("18446744073709551615", 18446744073709551615), ("36893488147419103232", 36893488147419103232.0),
        ("1:30", "1:30"), ("2026-01-01", "2026-01-01"), ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("1.2.3", "1.2.3"), ("100m", "100m"), ("0x", "0x"), (".", "."), ("+", "+"),
        ("'5'", "5"), ('"y"', "y"), ("!!str 5", "5"), ("!!int '5'", 5), ("! 5", "5"), ("!!binary aGk=", "hi"),
        ("|\n  a\n  b\n", "a\nb\n"),
    ],
)  # fmt: skip
def test_a_word_is_what_kubectl_takes_it_for(text: str, value: object) -> None:
    """Checked against kubectl's reader (sigs.k8s.io/yaml), whose words differ from other readers'."""
    tree, problems = compose(f"k: {text}")
    assert tree is not None
    assert problems == []
    assert plain(tree) == {"k": value}
    assert type(plain(tree)["k"]) is type(value)


def test_keys_are_text() -> None:
    """As in JSON, whatever they look like."""
    tree, _ = compose("{1: a, y: b, ~: c, 1.5: d}")
    assert tree is not None
    assert plain(tree) == {"1": "a", "true": "b", "null": "c", "1.5": "d"}


def test_merges_and_aliases_are_replaced() -> None:
    """The own keys of a mapping have precedence over merged ones."""
    tree, _ = compose("a: &a {x: 1, y1: 2}\nb: {<<: *a, x: 3}\nc: *a\n")
    assert tree is not None
    assert plain(tree) == {"a": {"x": 1, "y1": 2}, "b": {"x": 3, "y1": 2}, "c": {"x": 1, "y1": 2}}


def test_json_objects_one_after_the_other_are_documents(tmp_path) -> None:
    """As `kubectl get -o json | jq -c '.items[]'` prints them; characters beyond 16 bits come in halves."""
    head = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": '
    one = head + '{"k": "\\ud83d\\ude00\\/"}}'
    last = head + '{"k": "/"}}'
    file = tmp_path / "stream.json"
    file.write_text(f"{one}\n{one} {one}\n---\n{last}\n")
    reading = read([str(file)])
    assert reading.problems == []
    assert [manifest.content["data"]["k"] for manifest in reading.manifests] == ["😀/", "😀/", "😀/", "/"]
    starts = [manifest.tree.span.start for manifest in reading.manifests]
    assert [tuple(start) for start in starts] == [(1, 1), (2, 1), (2, len(one) + 2), (4, 1)]


def test_directives_belong_to_the_document_after_them(tmp_path) -> None:
    """And no document hides the one after its end."""
    file = tmp_path / "a.yaml"
    one = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"
    file.write_text(f"%YAML 1.1\n# text\n---\n{one}...\n---\n{one}")
    reading = read([str(file)])
    assert reading.problems == []
    assert [manifest.source for manifest in reading.manifests] == [f"{file}:4", f"{file}:7"]


_KEYS = st.text(st.sampled_from("abny1.-/_ []"), min_size=1, max_size=8)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.text(max_size=12)
    | st.sampled_from(["y", "1e3"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(content=st.dictionaries(_KEYS, _VALUES, min_size=1, max_size=4))
def test_what_is_printed_is_read_again(content: dict[str, Any]) -> None:
    """Whatever an object holds, its YAML says the same to this reader, and so to kubectl."""
    tree, problems = compose(as_yaml(content))
    assert problems == []
    assert tree is not None
    assert plain(tree) == content


_NAMES = st.text(st.sampled_from("abc-/"), min_size=1, max_size=4).filter(lambda name: name.strip("-/"))


@given(
    content=st.dictionaries(
        _NAMES, st.dictionaries(_NAMES, st.lists(st.integers(-9, 9), max_size=2)), min_size=1
    )
)
def test_every_path_leads_to_its_value(content: dict[str, dict[str, list[int]]]) -> None:
    """With keys after dots or in brackets; what is beyond the document is named as missing."""
    tree, _ = compose(as_yaml(content))
    assert isinstance(tree, Mapping)
    for first, inner in content.items():
        for second, values in inner.items():
            for index, value in enumerate(values):
                for path in (f"{first}.{second}[{index}]", f"{first}[{second}][{index}]"):
                    place = place_of(tree, path)
                    assert (place.steps, place.missing) == ((first, second, index), "")
                    assert plain(place.node) == value
            beyond = place_of(tree, f"{first}.{second}[{len(values)}].x")
            assert (beyond.steps, beyond.missing) == ((first, second), f"[{len(values)}].x")
