"""A host belongs to the most specific name that covers it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.routing.gateway_api import hostnames
from headgate.routing.gateway_api.hostnames import HostTable

LABELS = st.lists(st.sampled_from(["a", "b", "com"]), min_size=1, max_size=4)
HOSTS = LABELS.map(".".join)
PATTERNS = st.one_of(HOSTS, HOSTS.map("*.{}".format), st.just(""))


@pytest.mark.parametrize(
    ("pattern", "host", "fits"),
    [
        ("test.example.com", "test.example.com", True),
        ("test.example.com", "other.example.com", False),
        ("*.example.com", "test.example.com", True),
        ("*.example.com", "foo.test.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "test.example.net", False),
        ("*.example.com", ".example.com", False),
        ("", "anything.at.all", True),
        ("", "", True),
    ],
)
def test_a_wildcard_stands_for_one_label_or_more(pattern: str, host: str, fits: bool) -> None:
    assert hostnames.matches(pattern, host) is fits


@given(PATTERNS, PATTERNS, HOSTS)
def test_an_intersection_has_the_hosts_of_both(one: str, other: str, host: str) -> None:
    common = hostnames.intersection(one, other)
    both = hostnames.matches(one, host) and hostnames.matches(other, host)
    assert both == (common is not None and hostnames.matches(common, host))
    assert common == hostnames.intersection(other, one)


@given(PATTERNS, PATTERNS)
def test_what_covers_a_pattern_is_listed(wide: str, narrow: str) -> None:
    assert hostnames.covers(wide, narrow) == (wide in set(hostnames.covering(narrow)))


@given(st.sets(PATTERNS), HOSTS)
def test_a_table_finds_the_most_specific_of_all(patterns: set[str], host: str) -> None:
    table = HostTable({pattern: pattern for pattern in patterns})
    fitting = [pattern for pattern in patterns if hostnames.matches(pattern, host)]
    assert table.find(host) == (min(fitting, key=hostnames.specificity) if fitting else None)
