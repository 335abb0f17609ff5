"""Batches of KV events are read in both of their forms; anything else is refused, whatever it is."""

from array import array

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.fleet.prefix import kv_events
from headgate.fleet.prefix.kv_events import Cleared, InvalidEventsError, Removed, Stored

encode = msgspec.msgpack.encode


def test_the_array_form_is_read():
    """As vLLM wrote it first, with and without the fields that came later."""
    batch = [
        1.5,
        [
            ["BlockStored", [11, 12], None, [1, 2, 3, 4], 2, None, "GPU", "sql", None, 0],
            ["BlockStored", [b"\1" * 32], 12, [5, 6], 2, None],
            ["BlockRemoved", [11]],
            ["BlockRemoved", [12], "CPU"],
            ["AllBlocksCleared"],
            ["SomethingNew", 1, 2, 3],
        ],
        3,
    ]
    first, second, *rest = kv_events.read(encode(batch))
    assert first == Stored(
        hashes=(11, 12),
        parent=None,
        tokens=array("I", [1, 2, 3, 4]),
        block_tokens=2,
        adapter="sql",
        medium="GPU",
    )
    assert (second.hashes, second.parent, second.adapter) == ((b"\1" * 32,), 12, "")
    assert rest == [Removed(hashes=(11,), medium="GPU"), Removed(hashes=(12,), medium="CPU"), Cleared()]


def test_the_map_form_is_read():
    """As vLLM writes it now; the batch is an array or a map."""
    stored = {
        "type": "BlockStored",
        "block_hashes": [7],
        "parent_block_hash": 6,
        "token_ids": [1, 2],
        "block_size": 2,
        "lora_id": 4,
        "medium": None,
        "extra_keys": [["image"]],
    }
    events = [stored, {"type": "BlockRemoved", "block_hashes": [7]}, {"type": "AllBlocksCleared"}]
    for batch in ([1.0, events], {"ts": 1.0, "events": events}):
        found, *rest = kv_events.read(encode(batch))
        assert (found.parent, found.adapter, found.medium) == (6, "4", "GPU")
        assert found.extra
        assert rest == [Removed(hashes=(7,), medium="GPU"), Cleared()]


def test_groups_of_layers_are_told_apart():
    """Models with several kinds of layers tell of each, and which of them keep all of a prompt."""
    stored = ["BlockStored", [1], None, [5, 6], 2, None, "GPU", None, None]
    batch = [
        *([*stored, 0, "sliding_window"], [*stored, 1, "full_attention"], [*stored, 1], stored),
        *(["BlockRemoved", [1], "GPU", 1], ["BlockRemoved", [1], "GPU"]),
    ]
    *held, one, first = kv_events.read(encode([0.0, batch]))
    assert [(each.group, each.is_whole) for each in held] == [(0, False), (1, True), (1, False), (0, True)]
    assert (one.group, first.group) == (1, 0)


@pytest.mark.parametrize(
    ("keys", "extra"),
    [
        ([["sql"], ["sql"]], False),
        ([["sql", "salt"], ["sql"]], True),
        ([["salt"], None], True),
        (None, False),
    ],
)
def test_an_adapter_is_not_told_twice(keys, extra):
    """vLLM has its name among the keys of each block as well."""
    event = ["BlockStored", [1, 2], None, [1, 2, 3, 4], 2, 7, "GPU", "sql", keys]
    (found,) = kv_events.read(encode([0.0, [event]]))
    assert (found.adapter, bool(found.extra)) == ("sql", extra)


@pytest.mark.parametrize("block_size", [0, 16])
def test_names_alone_are_read(block_size):
    """What connectors of vLLM tell of lower tiers: without tokens, in either form."""
    array_form = ["BlockStored", [7, 8], None, [], block_size, None, "CPU"]
    map_form = {
        "type": "BlockStored",
        "block_hashes": [7, 8],
        "parent_block_hash": None,
        "token_ids": [],
        "block_size": block_size,
        "medium": "CPU",
    }
    for event in (array_form, map_form):
        (found,) = kv_events.read(encode([1.0, [event]]))
        assert (found.hashes, list(found.tokens), found.medium) == ((7, 8), [], "CPU")


STORED = ["BlockStored", [1], None, [1, 2], 2]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x91" * 5000,
        encode(None),
        encode([1.0]),
        encode([1.0, {}]),
        encode([1.0, [[]]]),
        encode([1.0, [5]]),
        encode([1.0, [["AllBlocksCleared"]] * (kv_events.MAX_EVENTS + 1)]),
        encode([1.0, [["BlockStored", [1]]]]),
        encode([1.0, [[*STORED[:4], 0]]]),
        encode([1.0, [[*STORED[:4], 3]]]),
        encode([1.0, [[*STORED[:4], "2"]]]),
        encode([1.0, [[*STORED[:3], [], -1]]]),
        encode([1.0, [[*STORED[:3], "", 2]]]),
        encode([1.0, [["BlockStored", [1], None, [1, -2], 2]]]),
        encode([1.0, [["BlockStored", [1], None, [1, 2**32], 2]]]),
        encode([1.0, [["BlockStored", [1], None, ["a", "b"], 2]]]),
        encode([1.0, [["BlockStored", [1.5], None, [1, 2], 2]]]),
        encode([1.0, [["BlockStored", [b"x" * 65], None, [1, 2], 2]]]),
        encode([1.0, [["BlockStored", [1], [], [1, 2], 2]]]),
        encode([1.0, [["BlockRemoved", 7]]]),
        encode([1.0, [["BlockRemoved", [1], "GPU", -1]]]),
        encode([1.0, [["BlockRemoved", [1], "GPU", "1"]]]),
        encode([1.0, [["BlockRemoved", list(range(kv_events.MAX_BLOCKS + 1))]]]),
        encode([1.0, [[["BlockRemoved"], [1]]]]),
        encode([1.0, [{"type": "BlockStored"}]]),
    ],
)
def test_what_is_no_batch_is_refused(payload):
    """Whoever reaches the port could send it."""
    with pytest.raises(InvalidEventsError):
        list(kv_events.read(payload))


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary() | st.text() | st.floats(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=6),
    max_leaves=10,
)
kinds = st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared"])


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(kinds, st.lists(anything, max_size=10)).map(lambda e: [e[0], *e[1]]), max_size=3)
    | st.lists(
        st.dictionaries(
            st.sampled_from(["type", "block_hashes", "token_ids", "block_size", "medium", "extra_keys"]),
            anything | kinds,
        ),
        max_size=3,
    )
)
def test_nothing_but_events_comes_out(events):
    """Whatever is inside: events, or an InvalidEventsError."""
    try:
        found = list(kv_events.read(encode([0.0, events])))
    except InvalidEventsError:
        return
    assert all(isinstance(event, Stored | Removed | Cleared) for event in found)
