"""Arrivals that come in bursts are planned at the rate of bursts; random ones at their mean, as before."""

import random

import pytest

from headgate.planning.bursts import Bursts
from headgate.planning.load import Load, LoadFilter

WINDOW_S = 15.0


def poisson(rng, mean):
    count, left = 0, rng.expovariate(1.0)
    while left < mean:
        count, left = count + 1, left + rng.expovariate(1.0)
    return count


def readings(rates_per_s, seed=1):
    """One for each 15 s."""
    rng = random.Random(seed)
    return [poisson(rng, rate * WINDOW_S) / WINDOW_S for rate in rates_per_s]


@pytest.mark.parametrize("rate_per_s", [0.2, 5.0, 50.0])
@pytest.mark.parametrize("seed", range(5))
def test_random_arrivals_have_no_bursts(rate_per_s, seed):
    """Over two hours."""
    bursts = Bursts(WINDOW_S)
    found = [bursts.add(each, 15.0 * n) for n, each in enumerate(readings([rate_per_s] * 480, seed))]
    assert sum(each > 0 for each in found) <= 0.02 * len(found)


@pytest.mark.parametrize("rates", [[20.0] * 60 + [2.0] * 60, [2.0] * 60 + [20.0] * 60])
def test_a_step_is_no_burst(rates):
    """Neither up nor down."""
    bursts = Bursts(WINDOW_S)
    assert not any(bursts.add(each, 15.0 * n) for n, each in enumerate(readings(rates)))


def test_bursts_count_at_their_rate():
    """All requests come in one quarter of each minute: replicas for the mean would be late."""
    bursts = Bursts(WINDOW_S)
    found = [bursts.add(each, 15.0 * n) for n, each in enumerate(readings([24.0, 0.0, 0.0, 0.0] * 20))]
    assert 20 < found[-1] < 32


def test_a_reading_within_the_window_of_the_last_one_counts_once():
    """Signals come once a second."""
    bursts, same = Bursts(WINDOW_S), Bursts(WINDOW_S)
    for n, each in enumerate(readings([24.0, 0.0, 0.0, 0.0] * 10)):
        for second in range(15):
            often = bursts.add(each, 15.0 * n + second)
        once = same.add(each, 15.0 * n)
    assert often == once > 0


def test_the_load_stays_between_bursts():
    """Replicas cannot be started while a burst lasts."""
    load = LoadFilter()
    planned = [
        load.add(Load(arrivals_per_s=each, prompt_tokens=500, output_tokens=100), 15.0 * n).arrivals_per_s
        for n, each in enumerate(readings([24.0, 0.0, 0.0, 0.0] * 20))
    ]
    assert min(planned[40:]) > 20


@pytest.mark.parametrize(
    ("rates", "least", "most"), [([5.0] * 40, 0.0, 2.5), ([24.0, 0.0, 0.0, 0.0] * 10, 100.0, 400.0)]
)
def test_the_load_tells_how_it_varies(rates, least, most):
    """As a multiple of chance, once eight readings are known."""
    load, told = LoadFilter(), []
    for n, each in enumerate(readings(rates)):
        told.append(load.add(Load(arrivals_per_s=each), 15.0 * n).dispersion)
    assert told[:7] == [0.0] * 7
    assert all(least < each < most for each in told[7:])
