"""`*` stands for any text, and comparing is linear."""

import fnmatch
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.auth.patterns import Names

TEXT = st.text(alphabet="ab*", max_size=12)
NAME = st.text(alphabet="ab", max_size=16)


@given(TEXT, NAME)
@example("a*a", "a")
@example("*ab*ab*", "ab")
@example("", "")
@example("*", "")
def test_as_shells_do(pattern, name):
    """Compared with fnmatch, for names and patterns alike."""
    expected = re.fullmatch(fnmatch.translate(pattern), name) is not None
    assert (name in Names([pattern])) == expected


@pytest.mark.parametrize("name", [None, 3])
def test_only_text_matches(name):
    """Claims of tokens may be anything."""
    assert name not in Names(["*"])


def test_without_any_it_is_false():
    """Which callers take for all."""
    assert not Names([])
    assert Names(["a"])
    assert Names(["*"])
