"""A cache that is cleared costs no long turn, and what is left of it is tidied up little by little."""

import random
from array import array

import pytest

from headgate import routing
from headgate.fleet.ledger import EndpointState
from headgate.fleet.prefix.kv_events import SLICE_BLOCKS, Cleared, Stored
from headgate.fleet.prefix.residency import CLEANED_AT_ONCE, FRONT, Residency

BLOCKS = 1000


@pytest.fixture
def residency():
    return Residency()


@pytest.fixture
def loads():
    return [EndpointState(routing.Endpoint(name, "h", 1)) for name in "ab"]


def stored(first, count=BLOCKS):
    """Blocks with tokens of their own."""
    names = tuple(range(first, first + count))
    return Stored(
        hashes=names,
        parent=None,
        tokens=array("I", (1_000_000 + n for n in names)),
        block_tokens=1,
        adapter="",
        medium="GPU",
    )


def marks(residency):
    """How many blocks are marked as held by anybody."""
    return sum(len(holders) for holders in residency._holders) - 1  # the front is held by all


@pytest.mark.parametrize("end", ["cleared", "rank cleared", "gone"])
def test_nothing_is_held_from_then_on(residency, loads, end):
    """Though marks are taken back later, they stand for nobody."""
    for load in loads:
        residency.begin(load)
        residency.apply(load, stored(0))
    one, other = loads
    blocks = list(residency.accounts(loads)[1].where)
    if end == "cleared":
        residency.apply(one, Cleared())
    elif end == "rank cleared":
        residency.clear_rank(one, 0)
    else:
        residency.end(one)
        residency.begin(one)
    assert residency.held(blocks[:1], residency.accounts(loads))[0] == [0, 1]
    residency.validate()
    residency.sweep(0.0)
    residency.validate()
    assert marks(residency) == BLOCKS
    assert residency.held(blocks[:1], residency.accounts([other]))[0] == [1]


def test_engines_that_clear_again_and_again_leave_nothing(residency, loads):
    """However fast they are, no more is left to be tidied up than they have told of since."""
    load = loads[0]
    residency.begin(load)
    for turn in range(200):
        residency.apply(load, stored(turn * BLOCKS))
        residency.apply(load, Cleared())
        assert marks(residency) <= 2 * BLOCKS
        residency.validate()
    residency.sweep(0.0)
    assert marks(residency) == 0
    assert not residency._retired
    assert len(residency._free_bits) <= 4


def test_what_was_expected_goes_as_well(residency, loads):
    """A prompt that was just sent is not in a cache that was cleared since."""
    load = loads[0]
    residency.begin(load)
    residency.apply(load, stored(0))
    (account,) = residency.accounts([load])
    expected = [random.Random(0).getrandbits(60), *list(account.where)[:3]]
    residency.expect(load, [FRONT, *expected], 0.0)
    residency.apply(load, Cleared())
    assert residency.held(expected, residency.accounts([load]))[0] == [0]
    residency.sweep(100.0)
    residency.validate()
    assert marks(residency) == 0


def test_one_sweep_is_bounded(residency, loads):
    """Those who wait for the event loop have their turns in between."""
    load = loads[0]
    residency.begin(load)
    for first in range(0, 3 * CLEANED_AT_ONCE, BLOCKS):
        residency.apply(load, stored(first))
    residency.end(load)
    left = [marks(residency)]
    while left[-1]:
        residency.sweep(0.0)
        left.append(marks(residency))
    assert left == [3 * CLEANED_AT_ONCE, 2 * CLEANED_AT_ONCE, CLEANED_AT_ONCE, 0]


def test_a_rank_among_several_is_cleared_slice_by_slice(residency, loads):
    """Whatever it held; what the other rank holds stays."""
    load = loads[0]
    residency.begin(load)
    for first in range(0, 5 * SLICE_BLOCKS, SLICE_BLOCKS):
        residency.apply(load, stored(first, SLICE_BLOCKS), 0)
    residency.apply(load, stored(10 * SLICE_BLOCKS, SLICE_BLOCKS), 1)
    left = [residency.blocks(load)]
    has_more = residency.apply(load, Cleared(), 0)
    while has_more:
        left.append(residency.blocks(load))
        residency.validate()
        has_more = residency.clear_rank(load, 0)
    left.append(residency.blocks(load))
    assert left == [n * SLICE_BLOCKS for n in (6, 5, 4, 3, 2, 1)]
    residency.validate()
