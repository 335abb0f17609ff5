import itertools
import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.loadtest import Pace, paced
from headgate.loadtest.plan.arrivals import Process
from headgate.traffic.traces import TimedRequest

COUNT = 4000


def gaps(pace: Pace, seed: int = 1) -> list[float]:
    times = list(itertools.islice(pace.times(random.Random(seed)), COUNT + 1))
    return [later - earlier for earlier, later in itertools.pairwise(times)]


@pytest.mark.parametrize(
    ("process", "burstiness", "deviation"),
    [
        ("constant", 1.0, 0.0),
        ("poisson", 1.0, 1.0),
        ("gamma", 0.25, 2.0),
        ("gamma", 1.0, 1.0),
        ("gamma", 9.0, 1 / 3),
    ],
)
def test_intervals_have_the_mean_and_deviation_of_their_process(
    process: Process, burstiness: float, deviation: float
) -> None:
    """The deviation of a gamma process is the mean over the square root of its shape."""
    found = gaps(Pace(rate_per_s=8.0, process=process, burstiness=burstiness))
    error = 4 * max(deviation, 1e-9) / math.sqrt(COUNT)
    assert statistics.mean(found) * 8 == pytest.approx(1.0, rel=error)
    assert statistics.pstdev(found) * 8 == pytest.approx(deviation, rel=0.2, abs=1e-6)


@settings(max_examples=30)
@given(st.floats(0.01, 1000), st.sampled_from(["constant", "poisson", "gamma"]), st.floats(0.05, 50))
def test_times_never_go_back(rate: float, process: Process, burstiness: float) -> None:
    """Whatever the process, from 0 on."""
    pace = Pace(rate_per_s=rate, process=process, burstiness=burstiness)
    times = list(itertools.islice(pace.times(random.Random(2)), 100))
    assert times[0] == 0.0
    assert times == sorted(times)


def test_equal_seeds_have_equal_times() -> None:
    """So that two servers get the same plan."""
    pace = Pace(rate_per_s=2.0, process="gamma", burstiness=0.5)
    assert gaps(pace) == gaps(pace)
    assert gaps(pace) != gaps(pace, seed=2)


def test_turns_stay_behind_the_turn_before() -> None:
    """A turn that waits for a response has no time of its own."""
    requests = [
        TimedRequest(at_s=0.0, think_s=think_s, prompt_tokens=1, output_tokens=1)
        for think_s in (None, 1.0, None, 2.0, 3.0, None)
    ]
    at_s = [each.at_s for each in paced(requests, Pace(rate_per_s=0.5, process="constant"), random.Random(1))]
    assert at_s == [0.0, 0.0, 2.0, 2.0, 2.0, 4.0]
