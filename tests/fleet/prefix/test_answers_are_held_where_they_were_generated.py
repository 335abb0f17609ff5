"""An engine has its own answer in its cache, so that the next turn of a conversation is held up to there."""

import pytest

from headgate import fleet, routing
from headgate.fleet.prefix import PrefixIndex

PROMPT, TURN = list(range(1, 5)), list(range(1, 10))
"""Four blocks, and the next turn: with two blocks of answer, nine."""


@pytest.fixture(name="loads")
def _loads():
    return [
        fleet.EndpointState(routing.Endpoint(f"default/pod-{n}", "127.0.0.1", 8000 + n)) for n in range(3)
    ]


@pytest.fixture(name="index")
def _index(loads):
    """The first endpoint has answered the prompt."""
    index = PrefixIndex()
    index.add(PROMPT, loads[0], 1.0)
    index.responded(PROMPT, loads[0], 6.3)
    index.validate()
    return index


def test_the_next_turn_is_held_with_the_answer_in_it(index, loads):
    """Whole blocks of it, on the endpoint that answered, as soon as it is asked for."""
    assert index.matched(TURN, loads) == [6, 0, 0]
    assert index.matched(TURN, loads[:1]) == [6]
    assert index.matched(TURN, loads[1:]) == [0, 0]


@pytest.mark.parametrize("length", [1, 4, 5])
def test_what_is_shorter_than_prompt_and_answer_is_not_the_next_turn(index, loads, length):
    """The prompt itself once more, or a turn in which the answer was shortened."""
    assert index.matched(TURN[:length], loads) == [min(length, 4), 0, 0]


def test_prompts_that_part_earlier_are_held_as_before(index, loads):
    """Another conversation behind the same beginning."""
    assert index.matched([1, 2, 3, 14, 15, 16, 17, 18], loads) == [3, 0, 0]


def test_the_turn_after_the_next_needs_an_answer_of_its_own(index, loads):
    """Once a turn was sent, all of it is held; then comes its answer."""
    index.add(TURN, loads[0], 2.0)
    longer = [*TURN, *range(20, 30)]
    assert index.matched(longer, loads) == [9, 0, 0]
    index.responded(TURN, loads[0], 12.0)
    assert index.matched(longer, loads) == [12, 0, 0]


def test_two_prompts_that_end_alike_cannot_be_told_apart(index, loads):
    """Short questions behind one system prompt, whose ends are less than a block."""
    index.add(PROMPT, loads[0], 2.0)
    index.responded(PROMPT, loads[0], 8.0)
    assert index.matched(TURN, loads) == [4, 0, 0]


def test_of_two_endpoints_that_hold_the_prompt_neither_is_known_to_have_answered(index, loads):
    """Before the second has answered, and after."""
    index.add(PROMPT, loads[1], 2.0)
    assert index.matched(TURN, loads) == [4, 4, 0]
    index.responded(PROMPT, loads[1], 6.0)
    assert index.matched(TURN, loads) == [4, 4, 0]


def test_an_answer_that_is_gone_is_not_another_endpoints(index, loads):
    """Which has the prompt, and stays alone with it as the one that answered forgets it."""
    index.add(PROMPT, loads[1], 2.0)
    index.forget(loads[0])
    assert index.matched(TURN, loads) == [0, 4, 0]
    index.responded(PROMPT, loads[1], 5.0)
    assert index.matched(TURN, loads) == [0, 5, 0]


def test_nothing_is_held_behind_an_end_that_is_gone(index, loads):
    """The cache has become smaller, or is empty."""
    index.limit(loads[0], 3)
    assert index.matched(TURN, loads) == [3, 0, 0]
    index.forget(loads[0])
    index.responded(PROMPT, loads[0], 6.0)
    assert index.matched(TURN, loads) == [0, 0, 0]


def test_an_answer_to_what_was_never_sent_is_nothing(index, loads):
    """The endpoint is gone meanwhile, or the prompt has no whole block."""
    index.responded(PROMPT, loads[2], 9.0)
    index.responded([], loads[0], 9.0)
    index.validate()
    assert index.matched(TURN, loads) == [6, 0, 0]


def test_blocks_may_differ_in_length(loads):
    """Sizes are in units then; what is held is in blocks."""
    index = PrefixIndex(block_ends=(1, 2, 3, 5, 8, 12, 16))
    index.add(PROMPT, loads[0], 1.0)
    index.responded(PROMPT, loads[0], 5)
    index.validate()
    assert index.matched(TURN[:7], loads) == [5, 0, 0]
