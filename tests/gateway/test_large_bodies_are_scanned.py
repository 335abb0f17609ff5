"""A scan of a large body finds the same as a JSON parser, and as the gateway does in small bodies."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.requests.bodies import large, prompt, scan
from headgate.requests.bodies.fields import inspect, scanner
from headgate.requests.bodies.members import Fields
from headgate.requests.refusal import Refusal

NAMES = ["model", "stream", "messages", "n", "max_tokens", "kv_transfer_params"]
OTHER_NAMES = [
    "",
    "mode",
    "models",
    "Model",
    "m",
    "nn",
    "stream_",
    "\\model",
    '"model"',
    "\u00e4",
    "\U0001f600",
]


def _escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


SPACE = st.text(" \t\n\r", max_size=2)
KEYS = st.one_of(
    st.sampled_from(NAMES).map(json.dumps),
    st.sampled_from(NAMES).map(lambda name: f'"{_escaped(name)}"'),
    st.sampled_from(NAMES).map(lambda name: f'"{_escaped(name[:1])}{name[1:]}"'),
    st.sampled_from(OTHER_NAMES).map(json.dumps),
    st.sampled_from(OTHER_NAMES).map(lambda name: json.dumps(name, ensure_ascii=False)),
)
STRINGS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6).flatmap(
        lambda text: st.sampled_from([json.dumps(text), json.dumps(text, ensure_ascii=False)])
    ),
    st.sampled_from(['"]"', '"}"', '","', '"\\\\"', '"\\""', '"\\"model\\":\\"x\\""', '"\\ud83d\\ude00"']),
)
SCALARS = st.one_of(
    STRINGS,
    st.sampled_from(["null", "true", "false", "0", "-0.5e+10", "1E9", "123456789012345678901234567890"]),
)


def _joined(before, items, after, opening, closing):
    return f"{opening}{before}{','.join(items)}{after}{closing}"


def _lists(values):
    return st.builds(_joined, SPACE, st.lists(values, max_size=4), SPACE, st.just("["), st.just("]"))


def _objects(values):
    members = st.builds("{}{}{}:{}{}{}".format, SPACE, KEYS, SPACE, SPACE, values, SPACE)
    return st.builds(_joined, SPACE, st.lists(members, max_size=5), SPACE, st.just("{"), st.just("}"))


VALUES = st.recursive(SCALARS, lambda inner: st.one_of(_lists(inner), _objects(inner)), max_leaves=12)
DOCUMENTS = st.builds("{}{}{}".format, SPACE, _objects(VALUES), SPACE)


class _Pairs(list):
    """An object with all its members, repeated ones too."""


def parsed(document: bytes) -> list[tuple[str, object]]:
    """The top-level members, as Python's own parser finds them."""
    found = json.loads(document, object_pairs_hook=_Pairs)
    assert isinstance(found, _Pairs)
    return list(found)


def scanned(document: bytes) -> list[tuple[str, object]]:
    return [
        (found.name, json.loads(document[found.value : found.end], object_pairs_hook=_Pairs))
        for found in scanner.members(document)
    ]


@given(DOCUMENTS)
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=200)
def test_the_members_are_those_that_a_parser_finds(document):
    """In their order, with all repetitions and however their names are escaped; nested ones are not found."""
    body = document.encode()
    assert scanned(body) == [member for member in parsed(body) if member[0] in scanner.names]


@given(
    DOCUMENTS, st.integers(min_value=0), st.sampled_from(['"', "\\", "{", "}", "[", "]", ",", ":", "", "x"])
)
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=200)
def test_whatever_a_parser_accepts_is_scanned_as_it_reads_it(document, place, text):
    """One character is changed: what a parser still accepts, the scan reads alike, or it says no."""
    place %= len(document)
    body = (document[:place] + text + document[place + 1 :]).encode()
    try:
        members = parsed(body)
    except (ValueError, AssertionError):
        return
    try:
        assert scanned(body) == [member for member in members if member[0] in scanner.names]
    except scan.ScanError:
        # Stricter than Python's parser only in this.
        assert scan.lone_surrogate(body) or b"NaN" in body or b"Infinity" in body


@given(st.binary(max_size=60))
def test_any_bytes_are_scanned_or_refused(data):
    """Nothing but a refusal comes of what is no JSON."""
    for body in (data, b'{"model":"m",' + data + b"}", b'{"model":"m","messages":[' + data + b"]}"):
        found = large.read([], body, "/v1/chat/completions")
        assert isinstance(found.fields, Fields | Refusal)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"model":"m"', "not followed by a comm"),
        (b'{"model":"m",}', "a member name in quotes"),
        (b'{"model":"m"} x', "not followed by a comm"),
        (b'{"model":"m",', "a member name in quotes"),
        (b'{"model" "m"}', "a member name in quotes"),
        (b'{"a":"x,"model":"m"}', "not followed by a comma or brace"),
        (b'{"a":[1,"model":"m"}', "not followed by a comma or brace"),
        (b'{"a":' + b"[" * 201 + b"]" * 201 + b',"model":"m"}', "is nested deeper than 200 levels"),
        (b'{"a":[1,{"b":' + b'{"c":[' * 100 + b"1", "is nested deeper than 200 levels"),
        (b'{"a":' + b"[" * 200, "the value of the member at byte 1 is cut off or invalid"),
        (b'{"a":tru,"model":"m"}', "the value of the member at byte 1 is cut off or invalid"),
        (b'{"a":[' + b"[]," * 300, "is cut off, invalid, or deeper than 200 levels"),
        (b'{"model":"\\ud800"}', r"\ud800 is half of a surrogate pair"),
        (b'{"model":"m","messages":["\\n\\uDFFFx"]}', r"\uDFFF is half of a surrogate pair"),
        (b'{"model":"m",' + b'"n":1,' * 300 + b'"n":1}', "repeat a name"),
        (b"[]", "does not begin with an object"),
        (b"\xef\xbb\xbf{}", "does not begin with an object"),
    ],
)
def test_a_refusal_says_what_is_wrong(body, why):
    """With 400, and where the body cannot be read."""
    refusal = large.read([], body, "/v1/chat/completions").fields
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (400, "invalid_json")
    assert why in refusal.message


LONG = "It was the best of times, it was the worst of times. " * 100
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 1000}}
SOURCE = {"type": "image", "source": {"type": "base64", "data": "/9j/4AAQSkZJRgAB" * 800}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo" + "A" * 9000}}
MARKED = {"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/messages"])
@pytest.mark.parametrize(
    "members",
    [
        {"messages": [{"role": "user", "content": LONG}]},
        {"messages": [{"role": "user", "content": [MARKED, IMAGE, MARKED, SOURCE]}], "tools": [{"a": LONG}]},
        {"messages": None, "prompt": LONG},
        {"prompt": list(range(5000))},
        {"prompt": [LONG, "x"]},
        {"prompt": [[1, 2, 3], [4]]},
        {"prompt": []},
        {"prompt": 5},
        {"input": [{"role": "user", "content": LONG}], "instructions": "Be brief.", "tools": None},
        {"system": [MARKED], "messages": [{"role": "user", "content": [MARKED]}]},
        {"system": [MARKED], "messages": [{"role": "user", "content": [MARKED, IMAGE, MARKED, IMAGE]}]},
        {"tools": [{"a": 1}], "instructions": "x", "messages": [{"role": "user", "content": [IMAGE]}]},
        {"max_tokens": 5, "cache_salt": "s", "stream": True, "stream_options": {"a": 1}},
        {"stream": "yes"},
        {"model": 5},
        {"model": None},
        {"model": "x" * 2000},
    ],
)
def test_large_bodies_mean_what_small_ones_mean(members, path):
    """The same fields and the same prompt are read of a body, or it is refused with the same words."""
    body = json.dumps({"model": "m"} | members).encode()
    fields, read = inspect(body), large.read([], body, path)
    if isinstance(fields, Refusal):
        assert read.fields == fields
        return
    assert isinstance(read.fields, Fields)
    for name in ("model", "stream", "stream_options", "cache_salt", "most_tokens"):
        assert getattr(read.fields, name) == getattr(fields, name)
    small = prompt.read(fields, path)
    assert read.prompt == small
    assert bytes(prompt.placed(read.prompt, "m").text) == bytes(prompt.placed(small, "m").text)


def test_a_prompt_is_copied_only_as_far_as_it_is_hashed():
    """Its length is that of all of it."""
    body = json.dumps({"model": "m", "messages": ["a" * 100] * 100_000}).encode()
    read = large.read([], body, "/v1/chat/completions").prompt
    assert len(read.text) == prompt.HASHED_BYTES
    assert read.size > 10_000_000
    assert body[body.index(b"[") :].startswith(read.text)


def test_stand_ins_of_images_do_not_outgrow_the_prompt():
    """Thousands of small files that claim to be huge images take no more memory than is hashed."""
    head = "iVBORw0KGgoAAAANSUhEUgAA////AAD//wAA" + "A" * 4096
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + head}}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [part] * 1000}]}).encode()
    found = large.read([], body, "/v1/chat/completions").prompt
    assert len(found.media) == 1000
    read = prompt.placed(found, "m")
    assert len(read.text) <= prompt.HASHED_BYTES
    assert read.size > 60_000_000
