"""Addresses go to one Pod at a time, and rest after it."""

import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.node import addresses


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("gr"), st.integers(0, 9)), max_size=80))
def test_no_address_has_two_holders_and_none_comes_back_soon(steps):
    """Whatever Pods come and go, addresses are distinct, stable, and new ones were never held before."""
    pool = addresses.AddressPool(first_block=82)
    held: dict[str, str] = {}
    ever: set[str] = set()
    for step, number in steps:
        holder = f"pod-{number}"
        if step == "r":
            pool.release(holder)
            held.pop(holder, None)
            continue
        address = pool.allocate(holder)
        if holder in held:
            assert address == held[holder]
        else:
            assert address not in ever
        held[holder] = address
        ever.add(address)
        assert len(set(held.values())) == len(held)
    assert pool.statistics().held == len(held)


def test_addresses_of_a_former_start_are_kept_and_passed_over():
    """A reserved address stays with its Pod, is nobody else's, and the next one lies behind it."""
    pool = addresses.AddressPool(first_block=1)
    assert pool.reserve("old", "127.64.1.7")
    assert not pool.reserve("thief", "127.64.1.7")
    assert not pool.reserve("elsewhere", "10.0.0.1")
    assert not pool.reserve("named", "host.example")
    assert pool.allocate("old") == "127.64.1.7"
    assert pool.allocate("new") == "127.64.1.8"


def test_an_address_in_use_by_another_program_is_passed_over():
    """Where somebody already listens on the Pod's port, the next address is taken."""
    pool = addresses.AddressPool(first_block=200)
    taken = "127.64.200.1"
    with socket.create_server((taken, 0)) as server:
        port = server.getsockname()[1]
        address = pool.allocate("pod", lambda each: addresses.ports_are_free(each, [port]))
    assert address == "127.64.200.2"


def test_nodes_of_one_machine_begin_in_blocks_of_their_own():
    """Also if their state directories would have the same; a block is the same again once it is free."""
    block = addresses.claimed_block
    with block("a") as first, block("a") as second, block("a") as third:
        assert len({first, second, third}) == 3
    with block("a") as again:
        assert again == first


def test_an_exhausted_network_says_so():
    """When every address is refused, the error names the network instead of looping."""
    pool = addresses.AddressPool()
    with pytest.raises(addresses.AddressesExhaustedError, match=r"127\.64\.0\.0/16"):
        pool.allocate("pod", lambda _: False)
