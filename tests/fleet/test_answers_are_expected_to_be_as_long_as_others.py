"""How long an answer will be is learned from the model's answers before it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet
from headgate.fleet import answer_sizes


def test_nothing_is_known_at_first():
    """Then a usual length counts, and the client's limit where that is less."""
    sizes = fleet.AnswerSizes()
    assert sizes.expected("m", None) == answer_sizes.USUAL_TOKENS
    assert sizes.expected("m", 16) == 16
    assert sizes.expected("m", 100_000) == answer_sizes.USUAL_TOKENS
    assert sizes.expected("m", 0) == 1


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=60))
def test_the_first_answers_count_alike(lengths):
    """Their mean is what is expected of the next, of that model alone."""
    sizes = fleet.AnswerSizes()
    for tokens in lengths:
        sizes.learn("m", tokens)
    assert sizes.expected("m", None) == pytest.approx(sum(lengths) / len(lengths), abs=1.01)
    assert sizes.expected("other", None) == answer_sizes.USUAL_TOKENS


def test_a_change_is_followed():
    """After a few hundred answers of another length, nothing is left of those before."""
    sizes = fleet.AnswerSizes()
    for tokens in [1000] * 500 + [100] * 400:
        sizes.learn("m", tokens)
    assert sizes.expected("m", None) == pytest.approx(100, abs=5)


def test_models_are_bounded():
    """However many names there were, few are remembered."""
    sizes = fleet.AnswerSizes()
    for number in range(answer_sizes.MAX_MODELS + 5):
        sizes.learn(f"m{number}", 10)
    assert len(sizes.statistics()) <= answer_sizes.MAX_MODELS
