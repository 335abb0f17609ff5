"""YAML bodies are parsed by libyaml, with the same checks and the same results as in pure Python."""

from __future__ import annotations

import sys

import pytest
import yaml

from headgate.apiserver import errors
from headgate.apiserver.handlers import bodies
from headgate.apiserver.handlers.bodies import MAX_DEPTH

LONG = b"metadata: {name: y}\nlist: [" + b"1," * 1000 + b"]\n"


def pure(body: bytes) -> object:
    return yaml.load(body, yaml.SafeLoader)


def decoded(body: bytes) -> object:
    return bodies.decode_object(body, bodies.YAML)[0]


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="this build of PyYAML has no libyaml")
def test_most_work_on_yaml_is_done_outside_of_python() -> None:
    """A body at the limit took 4 s of the helper process that all users share; now a fifth."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    counts = []
    for decode in (bodies._decode_yaml, pure):
        calls = 0
        sys.setprofile(count)
        try:
            decode(LONG)
        finally:
            sys.setprofile(None)
        counts.append(calls)
    assert counts[0] < counts[1] / 5


def test_libyaml_and_pure_python_agree() -> None:
    assert bodies._decode_yaml(LONG)[0] == pure(LONG)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 2024-01-01", {"a": "2024-01-01"}),
        (
            "a: yes\nb: 0x10\nc: 1_0\nd: ~\ne: 1.5\nf: '1'",
            {"a": True, "b": 16, "c": 10, "d": None, "e": 1.5, "f": "1"},
        ),
        ("a: |\n  x\n  y\nb: >\n  x\n  y\n", {"a": "x\ny\n", "b": "x y\n"}),
        ("<<: {a: 1}\nb: 2", {"a": 1, "b": 2}),
        ("a: &x 1", {"a": 1}),
        ('"\\u00e9": "\u00fc\U0001f600"', {"\u00e9": "\u00fc\U0001f600"}),
    ],
)
def test_values_of_yaml(text: str, value: object) -> None:
    """Timestamps stay texts; all else is as in YAML 1.1."""
    assert decoded(text.encode()) == value


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"a: &x [1]\nb: *x", "aliases are not taken"),
        (b"a: &a [*a]", "aliases are not taken"),
        (b"a: [1", "line 1"),
        (b"a: 1\n---\nb: 2", "expected a single document"),
        (b"a: !!python/object:os.system x", "could not determine a constructor"),
        (b"a: \xff\xfe\x00", "error decoding YAML"),
        (b"a: !!bool x", "a value does not fit its tag"),
        (b"a: !!timestamp x", "a value does not fit its tag"),
        (b"a: !!int ''", "a value does not fit its tag"),
        (b"a: " + b"[" * (MAX_DEPTH + 1), f"{MAX_DEPTH}"),
        (b"a: " + b"[" * 100_000, f"{MAX_DEPTH}"),
        (b"- " * 100_000, f"{MAX_DEPTH}"),
    ],
)
def test_bad_yaml_is_refused(body: bytes, told: str) -> None:
    """400 with the reason; nesting is refused before anything recurses into it."""
    with pytest.raises(errors.StatusError) as caught:
        decoded(body)
    assert caught.value.code == 400
    assert told in caught.value.message


def test_keys_that_are_there_twice_are_told() -> None:
    """With their lines, in maps at any depth; the last one counts."""
    obj, complaints = bodies.decode_object(b"a: 1\nb:\n- c: 1\n  c: 2\na: 3\n", bodies.YAML)
    assert obj == {"a": 3, "b": [{"c": 2}]}
    assert sorted(complaints) == ['line 4: key "c" already set in map', 'line 5: key "a" already set in map']
