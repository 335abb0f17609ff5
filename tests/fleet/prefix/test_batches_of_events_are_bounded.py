"""What a batch of KV events becomes is bounded by checking lengths before anything is decoded."""

import struct
import tracemalloc

import msgspec
import pytest

from headgate import routing
from headgate.fleet.ledger import EndpointState
from headgate.fleet.prefix import kv_events
from headgate.fleet.prefix.kv_events import InvalidEventsError, Stored
from headgate.fleet.prefix.residency import Residency

SIZE = 4_000_000


def array(count):
    return b"\xdd" + struct.pack(">I", count)


STORED = b"\xabBlockStored\x91\x01\xc0\x91\x01\x01\xc0\xa3GPU\xc0"
HOSTILE = {
    "events that are nothing": b"\x92\x01" + array(SIZE) + b"\xc0" * SIZE,
    "empty arrays behind the events": b"\x93\x01\x90" + array(SIZE) + b"\x90" * SIZE,
    "empty maps behind the events": b"\x93\x01\x90" + array(SIZE) + b"\x80" * SIZE,
    "deep nesting": b"\x91" * SIZE,
    "nesting behind the events": b"\x93\x01\x90" + b"\x91" * SIZE,
    "a map with many events": b"\x81\xa6events" + array(SIZE) + b"\xc0" * SIZE,
    "many hashes": b"\x92\x01\x91\x92\xacBlockRemoved" + array(SIZE) + b"\x01" * SIZE,
    "many tokens": b"\x92\x01\x91\x95\xabBlockStored\x91\x01\xc0" + array(SIZE) + b"\x01" * SIZE + b"\x01",
    "many keys": b"\x92\x01\x91\x99" + STORED + array(SIZE) + b"\x90" * SIZE,
    "a key of empty arrays": b"\x92\x01\x91\x99" + STORED + b"\x91" + array(SIZE) + b"\x90" * SIZE,
    "a medium of empty arrays": b"\x92\x01\x91\x93\xacBlockRemoved\x91\x01" + array(SIZE) + b"\x90" * SIZE,
}


@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_batch_takes_no_more_memory_than_its_bytes(payload):
    """It is refused, or what it hides in is not looked at."""
    tracemalloc.start()
    try:
        found = list(kv_events.read(payload))
    except InvalidEventsError:
        found = []
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) <= 1
    assert most < 4 * SIZE, "the objects of its items would take 64 times its bytes"


@pytest.mark.parametrize("block_tokens", [1, 16, 100])
def test_a_long_event_comes_in_slices_that_say_the_same(block_tokens):
    """What a cache holds is the same as if each block had been told of alone."""
    count = 5000
    names = list(range(count))
    tokens = [n % 50_000 for n in range(count * block_tokens)]
    whole = ["BlockStored", names, None, tokens, block_tokens, None, "GPU"]
    single = [
        [
            *("BlockStored", [n], n - 1 if n else None),
            tokens[n * block_tokens : (n + 1) * block_tokens],
            *(block_tokens, None, "GPU"),
        ]
        for n in names
    ]
    slices = list(kv_events.read(msgspec.msgpack.encode([0.0, [whole]])))
    assert len(slices) > 1
    assert all(isinstance(each, Stored) and len(each.hashes) <= kv_events.SLICE_BLOCKS for each in slices)
    assert all(len(each.tokens) <= kv_events.SLICE_TOKENS for each in slices)
    residency, loads = Residency(), [EndpointState(routing.Endpoint(name, "h", 1)) for name in "ab"]
    for load, told in zip(loads, ([whole], single), strict=True):
        residency.begin(load)
        for event in kv_events.read(msgspec.msgpack.encode([0.0, told])):
            residency.apply(load, event)
    one, other = residency.accounts(loads)
    assert one is not None
    assert other is not None
    assert len(one.where) == count
    assert set(one.where) == set(other.where)


def test_what_divides_the_cache_does_so_in_all_slices():
    """It is told with the first, on which the others follow."""
    event = ["BlockStored", list(range(3000)), None, [1] * 3000, 1, None, "GPU", None, [["image"]] * 3000]
    first, *others = kv_events.read(msgspec.msgpack.encode([0.0, [event]]))
    assert isinstance(first, Stored)
    assert len(first.extra) == kv_events.EXTRA_CHARACTERS
    before = first
    for each in others:
        assert isinstance(each, Stored)
        assert (each.parent, each.extra) == (before.hashes[-1], "")
        before = each
