"""The body keeps every byte except the value of its top-level model."""

import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.requests.bodies.fields import inspect, replace_model
from headgate.requests.bodies.members import Fields
from headgate.requests.refusal import Refusal

NEW = 'org/new "name" \\ \u00e9\U0001f600'

SPACE = st.text(" \t\n\r", max_size=2)
MODEL_KEYS = st.sampled_from(['"model"', '"mod\\u0065l"', '"\\u006dodel"'])
OTHER_KEYS = st.one_of(
    st.sampled_from(['"Model"', '"model "', '"x\\"model"', '"\\\\model"', '"\\"model\\": \\"x\\""', '""']),
    st.text(max_size=5).filter(lambda key: key not in ("model", "stream")).map(json.dumps),
)
STRINGS = st.one_of(
    st.text(max_size=8).map(json.dumps),
    st.text(max_size=8)
    .filter(lambda t: not any("\ud800" <= c <= "\udfff" for c in t))
    .map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(['"model"', '"\\"model\\":\\"m\\""', '"\\\\"']),
)
SCALARS = st.one_of(
    STRINGS,
    st.sampled_from(["null", "true", "1.10", "-0", "1e999", "12345678901234567890123", "9" * 5000]),
    st.integers().map(str),
)


def _objects(keys, values):
    members = st.lists(st.tuples(SPACE, keys, SPACE, SPACE, values, SPACE).map(_member), max_size=4)
    return members.map(lambda made: "{" + ",".join(made) + "}")


def _member(parts):
    before, key, after_key, before_value, value, after = parts
    return f"{before}{key}{after_key}:{before_value}{value}{after}"


VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + ",".join(items) + "]"),
        _objects(st.one_of(MODEL_KEYS, OTHER_KEYS), inner),
    ),
    max_leaves=8,
)


@st.composite
def bodies(draw):
    """A body in three parts: before, the value of the model that counts, and after."""
    members = st.tuples(SPACE, OTHER_KEYS, SPACE, SPACE, VALUES, SPACE).map(_member)
    models = st.tuples(SPACE, MODEL_KEYS, SPACE, SPACE, STRINGS, SPACE).map(_member)
    before = draw(st.lists(st.one_of(members, members, models), max_size=4))
    after = draw(st.lists(members, max_size=3))
    start, key, after_key, before_value = draw(st.tuples(SPACE, MODEL_KEYS, SPACE, SPACE))
    value = draw(st.sampled_from(['"m"', '"\\u006d"', '"a\\"b"', '"\u00e4"']))
    head = "{" + "".join(f"{member}," for member in before) + f"{start}{key}{after_key}:{before_value}"
    tail = draw(SPACE) + "".join(f",{member}" for member in after) + "}" + draw(SPACE)
    return draw(SPACE) + head, value, tail


@given(bodies())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_all_other_bytes_stay(parts):
    """Whatever else is in the body, of any key's spelling, nesting or number: only the value changes."""
    before, value, after = (part.encode() for part in parts)
    body = before + value + after
    assert inspect(body) == Fields(json.loads(value))
    replaced = replace_model(body, NEW)
    assert replaced == before + json.dumps(NEW).encode() + after
    assert inspect(replaced) == Fields(NEW)


@given(st.one_of(st.binary(max_size=60), VALUES.map(str.encode)))
def test_any_bytes_are_read_or_refused(body):
    """What is not an object with a model is a 400 and never an exception."""
    fields = inspect(body)
    if isinstance(fields, Refusal):
        assert fields.status == 400
        assert json.loads(fields.body(anthropic=False))["error"]["code"] == fields.code
    else:
        assert isinstance(json.loads(body, parse_int=float)["model"], str)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"model":"\\ud800"}', None),
        (b'{"model":"\xff"}', None),
        (b'{"model":{"a":1}}', "model"),
        (b'{"model":["m"]}', "model"),
        (b'{"model":true}', "model"),
        (b'{"model":""}', "model"),
        (b'{"stream":true}', "model"),
        (b'{"model":"m","stream":"true"}', "stream"),
        (b'{"model":"m"', None),
        (b'{"model":"m"}{', None),
        (b'{"model":"m","a":' + b"[" * 100_000, None),
        (b'{"model":"m","a":' + b'{"a":' * 100_000, None),
        (b'\xef\xbb\xbf{"model":"m"}', None),
        ('{"model":"m"}'.encode("utf-16"), None),
    ],
)
def test_hostile_bodies_are_refused(body, param):
    """Wrong types and encodings, cut and endless nesting: refused with a 400 that names the field."""
    refusal = inspect(body)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.param) == (400, param)


@pytest.mark.parametrize("nested", [b'{"model":"x"},', b'"model",', b'{"mod\\u0065l":"m"},'])
def test_time_is_linear_in_the_body(nested):
    """A body full of things that look like the model cannot keep the gateway busy."""
    body = b'{"a":[' + nested * 200_000 + b'0],"model":"m"}'
    began = time.process_time()
    assert replace_model(body, "new") == body[:-4] + b'"new"}'
    assert time.process_time() - began < 15


async def test_deeply_nested_body_is_refused_or_served(start_gateway, endpoint):
    """Around the depth that a decoder takes, which is Python's to say, a body gets an answer either way."""
    gateway = await start_gateway(endpoint, model="served")
    endpoint.behave = lambda call: call.answer()
    client = await gateway.connect()
    statuses = set()
    for depth in (100, *range(180, 220, 2), *range(900, 1010, 2), 5_000, 20_000, 100_000):
        deep = b'{"a":' * depth + b'{"model":"x"}' + b"}" * depth
        client.post(b'{"a":%b,"model":"m"}' % deep)
        statuses.add((await client.response()).status)
    assert statuses == {200, 400}
