"""The label of a gateway's Lease stands for the namespaces whose limits it shares."""

import re

from hypothesis import given
from hypothesis import strategies as st

from headgate.quota import gateways

NAMES = st.sets(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True), max_size=6)
VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@given(NAMES, NAMES, st.randoms())
def test_the_label_is_valid_and_equal_for_the_same_namespaces_only(one, other, rng):
    """In any order, and however many there are."""
    shuffled = sorted(one)
    rng.shuffle(shuffled)
    value = gateways.scope_of(shuffled)
    assert VALUE.fullmatch(value)
    assert (value == gateways.scope_of(sorted(other))) == (one == other)


def test_without_namespaces_it_is_all():
    assert gateways.scope_of(()) == gateways.ALL
    assert gateways.scope_of(["all"]) != gateways.ALL
