"""The three pickers: the best, anyone, and each with a chance in proportion."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.scheduling.plugins.pickers import MaxScorePicker, RandomPicker, WeightedRandomPicker

DRAWS = 6000


def shares(picker, totals) -> list[float]:
    rng = random.Random(11)
    counts = Counter(picker.pick(totals, rng) for _ in range(DRAWS))
    return [counts[place] / DRAWS for place in range(len(totals))]


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_nobody_scores_more_than_the_pick(totals, rng):
    """The best is picked, whatever the totals."""
    assert totals[MaxScorePicker().pick(totals, rng)] == max(totals)


def test_ties_are_left_to_chance():
    """Of four with two best, each of the two gets half."""
    assert shares(MaxScorePicker(), [1.0, 3.0, 3.0, 2.0]) == pytest.approx([0, 0.5, 0.5, 0], abs=0.03)


def test_anyone_is_picked_whatever_the_totals():
    """Three endpoints get a third each."""
    assert shares(RandomPicker(), [9.0, 0.0, 1.0]) == pytest.approx([1 / 3] * 3, abs=0.03)


def test_chances_are_in_proportion_to_the_totals():
    """1 : 2 : 5 get their shares, 0 gets nothing; if all have 0, all are alike."""
    totals = [1.0, 2.0, 5.0, 0.0]
    assert shares(WeightedRandomPicker(), totals) == pytest.approx([1 / 8, 2 / 8, 5 / 8, 0], abs=0.03)
    assert shares(WeightedRandomPicker(), [0.0, 0.0]) == pytest.approx([0.5, 0.5], abs=0.03)
    assert WeightedRandomPicker().pick([1e-9, 0.0], random.Random(1)) == 0
