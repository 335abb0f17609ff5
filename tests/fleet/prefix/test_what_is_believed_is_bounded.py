"""What is believed of endpoints stays within bounds of size, and a prompt's head outlasts its tail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing
from headgate.fleet.prefix import PrefixIndex


def loads(count):
    return [fleet.EndpointState(routing.Endpoint(f"default/pod-{n}", "127.0.0.1", n)) for n in range(count)]


def prompt(name, blocks):
    return [hash((name, n)) for n in range(blocks)]


def test_a_prompt_larger_than_the_cache_leaves_its_head_there():
    """The engine drops the tail first, too."""
    index, (load,) = PrefixIndex(default_limit=10), loads(1)
    index.add(prompt("long", 25), load, 1.0)
    assert index.matched(prompt("long", 25), [load]) == [10]
    index.validate()


def test_the_least_recently_used_prompt_leaves_first_from_its_tail():
    """Of three prompts, the one used longest ago makes room, and only as much as is needed."""
    index, (load,) = PrefixIndex(default_limit=32, ttl_s=64.0), loads(1)
    for now, name in ((10.0, "a"), (20.0, "b"), (30.0, "c"), (40.0, "a"), (50.0, "d")):
        index.add(prompt(name, 10), load, now)
    held = {name: index.matched(prompt(name, 10), [load])[0] for name in "abcd"}
    assert held == {"a": 10, "b": 2, "c": 10, "d": 10}


def test_a_smaller_cache_than_believed_makes_room_at_once():
    """The engine says how large its cache is after prompts were sent there."""
    index, (load,) = PrefixIndex(default_limit=100), loads(1)
    index.add(prompt("a", 50), load, 1.0)
    index.limit(load, 20)
    assert index.matched(prompt("a", 50), [load]) == [20]
    assert index.statistics()["evicted"] == 30


def test_large_blocks_take_more_of_the_cache():
    """Blocks that grow along a prompt are counted by their size."""
    index, (load,) = PrefixIndex(default_limit=10, block_ends=(1, 2, 4, 8, 16)), loads(1)
    index.add(prompt("a", 5), load, 1.0)
    assert index.matched(prompt("a", 5), [load]) == [4]
    index.validate()


def test_all_endpoints_together_are_bounded():
    """The endpoint that holds most gives way."""
    index, (large, small) = PrefixIndex(max_blocks=100), loads(2)
    index.add(prompt("small", 20), small, 1.0)
    index.add(prompt("large", 300), large, 2.0)
    assert index.statistics()["blocks"] <= 100
    assert index.matched(prompt("small", 20), [small]) == [20]
    assert index.matched(prompt("large", 300), [large]) == [80]
    index.validate()


def test_an_endpoint_that_left_gives_its_place_to_another():
    """Nothing of the old one is believed of the new one."""
    index, (old, new) = PrefixIndex(), loads(2)
    for _ in range(3):
        index.add(prompt("a", 3), old, 1.0)
        index.remove(old)
        index.add(prompt("b", 3), new, 1.0)
        assert index.matched(prompt("a", 3), [old, new]) == [0, 0]
        index.validate()
    assert index.statistics()["endpoints"] == 1


def test_nothing_is_believed_of_endpoints_that_were_never_asked():
    """Nor of prompts without a whole block."""
    index, (asked, other) = PrefixIndex(), loads(2)
    index.add(prompt("a", 3), asked, 1.0)
    assert index.matched(prompt("a", 3), [other, asked, other]) == [0, 3, 0]
    assert index.matched([], [asked]) == [0]
    assert index.used_at(prompt("a", 1), other) is None
    assert index.used_at(prompt("a", 1), asked) == pytest.approx(1.0)


chains = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@given(
    sent=st.lists(st.tuples(chains, st.integers(0, 2), st.floats(0, 30)), max_size=60),
    limit=st.integers(1, 20),
    max_blocks=st.integers(5, 60),
)
def test_a_burst_never_breaks_the_bounds_nor_invents_blocks(sent, limit, max_blocks):
    """However close in time prompts come: no more is believed than was sent, and no tail without its head."""
    index, pool = PrefixIndex(max_blocks=max_blocks, default_limit=limit), loads(3)
    now, truth = 0.0, [set() for _ in pool]
    for chain, place, later in sent:
        now += later
        fronts = [hash(tuple(chain[: n + 1])) for n in range(len(chain))]
        index.add(fronts, pool[place], now)
        truth[place].update(fronts)
        index.validate()
        index.sweep(now)
        matched = index.matched(fronts, pool)
        for place, load in enumerate(pool):
            cut = [index.matched(fronts[: n + 1], pool)[place] for n in range(len(fronts))]
            assert cut == [min(n + 1, matched[place]) for n in range(len(fronts))]
            assert truth[place].issuperset(fronts[: matched[place]])
            assert index.blocks(load) <= limit


def test_a_small_part_of_a_large_cache_leaves_as_a_whole():
    """What two prompts have in common stays, and the one used longest ago leaves with all that is its own."""
    index, (load,) = PrefixIndex(default_limit=1000), loads(1)
    shared = prompt("shared", 5)
    for now, name in enumerate("abc"):
        index.add([*shared, *prompt(name, 10)], load, float(now))
    index.limit(load, 34)
    assert index.matched([*shared, *prompt("a", 10)], [load]) == [14]
    index.limit(load, 1000)
    index.add(prompt("d", 970), load, 10.0)
    held = {name: index.matched([*shared, *prompt(name, 10)], [load])[0] for name in "abc"}
    assert held == {"a": 5, "b": 15, "c": 15}
    index.validate()


def test_a_prompt_that_was_used_again_still_leaves_from_its_tail():
    """Its blocks are in the order of the prompt however often it was used."""
    index, (load,) = PrefixIndex(default_limit=32, ttl_s=64.0), loads(1)
    for now in (10.0, 20.0, 30.0):
        index.add(prompt("a", 10), load, now)
    index.limit(load, 4)
    assert index.matched(prompt("a", 10), [load]) == [4]
    index.validate()


def test_nothing_is_kept_of_endpoints_that_were_only_asked_about():
    """Endpoints come and go, and many leave before anything was sent to them."""
    index = PrefixIndex()
    for number in range(5):
        load = fleet.EndpointState(routing.Endpoint(f"pod-{number}", "127.0.0.1", 8000))
        assert index.matched([1], [load]) == [0]
        index.remove(load)
    assert index._list_cache == {}
