"""What requests of one replica experience at one rate."""

import numpy as np
import pytest

from headgate.planning.queueing import Replicas, Steady, analyze
from headgate.planning.replica import ModelError, Profile, Replica

PROFILE = Profile(alpha_ms=1, beta_ms=0.01, gamma_ms=10, delta_ms=0.001)


def engine(prompt: float = 100, response: float = 10, batch: int = 8, queue: int = 16) -> Replica:
    return Replica(
        profile=PROFILE, input_tokens=prompt, output_tokens=response, max_batch=batch, max_queue=queue
    )


def test_completions_grow_with_the_batch() -> None:
    """Requests per second at batch sizes 1 to 8."""
    wanted = [52.1105, 103.1992, 153.2959, 202.4291, 250.6266, 297.9146, 344.3187, 389.8635]
    assert engine().completions_per_ms() * 1000 == pytest.approx(wanted, rel=1e-5)


def test_a_busy_replica_is_described() -> None:
    """At half its highest rate."""
    found = analyze(engine(), 194.7629)
    assert found.throughput_per_s == pytest.approx(194.76282, rel=1e-4)
    assert found.response_ms == pytest.approx(20.19583, rel=1e-4)
    assert found.wait_ms == pytest.approx(0.27917, rel=1e-4)
    assert found.in_service == pytest.approx(3.87903, rel=1e-4)
    assert found.prefill_ms == pytest.approx(10.48246, rel=1e-4)
    assert found.itl_ms == pytest.approx(1.04825, rel=1e-4)
    assert found.utilization == pytest.approx(0.48488, rel=1e-4)


def test_a_replica_near_its_limit_is_described() -> None:
    """At 90 % of its highest rate, where some arrivals find the queue full."""
    found = analyze(engine(), 350.52632)
    assert found.throughput_per_s == pytest.approx(345.48947, rel=1e-4)
    assert found.response_ms == pytest.approx(30.94268, rel=1e-4)
    assert found.wait_ms == pytest.approx(10.53905, rel=1e-4)
    assert found.utilization == pytest.approx(0.88116, rel=1e-4)
    assert found.itl_ms == pytest.approx(1.07388, rel=1e-4)
    assert found.prefill_ms == pytest.approx(10.73875, rel=1e-4)
    assert found.blocked == pytest.approx(0.01437, rel=1e-3)


def test_requests_without_decoding_are_analyzed() -> None:
    """One token, which comes out of the prefill."""
    found = analyze(engine(response=1), 300)
    assert found.response_ms == pytest.approx(10.45109, rel=1e-4)
    assert found.wait_ms == pytest.approx(0.04056, rel=1e-3)
    assert found.in_service == pytest.approx(3.12316, rel=1e-4)
    assert found.effective_batch == pytest.approx(4.10528, rel=1e-4)


@pytest.mark.parametrize(
    ("prompt", "response", "low", "high"),
    [
        (0, 10, 0.110011, 822.2222),
        (0, 1, 0.990099, 7400.0),
        (100, 1, None, 740.0),
        (200, 20, 0.0340252, 248.8169),
    ],
)
def test_the_range_of_rates_follows_the_request(prompt, response, low, high) -> None:
    """From an idle replica to just below a full batch, whichever of prefill and decoding there is."""
    model = engine(prompt, response)
    assert model.max_rate_per_s / 0.999 == pytest.approx(high / 0.999, rel=1e-4)
    assert low is None or model.min_rate_per_s == pytest.approx(low, rel=1e-4)
    analyze(model, model.max_rate_per_s)


@pytest.mark.parametrize("rate", [0, -1, 400, float("nan"), float("inf")])
def test_rates_out_of_range_are_refused(rate) -> None:
    """The error has the rate and the range."""
    with pytest.raises(ModelError, match=rf"rate: {rate} is not above 0 and at most 389\.474 req/s"):
        analyze(engine(), rate)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"response": 0}, "output tokens: 0"),
        ({"prompt": -1}, "input tokens: -1"),
        ({"prompt": 50, "response": 0}, "output tokens: 0"),
        ({"prompt": float("nan")}, "input tokens: nan"),
        ({"batch": 0}, "max batch: 0"),
        ({"batch": -1}, "max batch: -1"),
        ({"batch": 65_537}, "max batch: 65537 is not from 1 to 65536"),
        ({"queue": -1}, "max queue: -1"),
    ],
)
def test_impossible_replicas_are_refused(wrong, told) -> None:
    """The error names the input and its value."""
    with pytest.raises(ModelError, match=told):
        engine(**wrong)


def test_impossible_profiles_are_refused() -> None:
    """Negative times, and an engine that needs none at all."""
    with pytest.raises(ModelError, match=r"beta: -0\.1 is not a time"):
        Profile(alpha_ms=1, beta_ms=-0.1, gamma_ms=0, delta_ms=0)
    idle = Profile(alpha_ms=0, beta_ms=0, gamma_ms=0, delta_ms=0)
    with pytest.raises(ModelError, match="takes no time"):
        Replica(profile=idle, input_tokens=1, output_tokens=2, max_batch=1, max_queue=1)


@pytest.mark.parametrize(
    ("prompt", "batch", "time_ms"), [(0, 4, 0), (1000, 1, 11), (2000, 8, 26), (500, 2.5, 11.25)]
)
def test_prefill_takes_longer_with_the_prompt_and_the_batch(prompt, batch, time_ms) -> None:
    """And no time without a prompt."""
    assert engine(prompt).prefill_ms(batch) == pytest.approx(time_ms)


@pytest.mark.parametrize(("batch", "time_ms"), [(1, 1.01), (4, 1.04), (8, 1.08), (2.5, 1.025)])
def test_decoding_takes_longer_with_the_batch(batch, time_ms) -> None:
    """Per token."""
    assert engine().decode_ms(batch) == pytest.approx(time_ms)


def test_a_replica_that_never_queues_is_analyzed() -> None:
    """Not even the first of the states in which requests wait is there."""
    found = analyze(engine(batch=1, queue=0), 10)
    assert found.wait_ms == 0
    assert found.ttft_percentile_ms == found.ttft_ms == found.prefill_ms
    assert 0 < found.blocked < 1


def test_decoding_of_a_single_token_without_a_prompt_has_a_batch() -> None:
    """Nothing is divided by zero."""
    found = analyze(engine(prompt=0, response=1), 3000)
    assert 0 < found.effective_batch <= 8
    assert found.itl_ms == pytest.approx(1 + 0.01 * found.effective_batch)


def test_without_a_prompt_gamma_has_no_effect() -> None:
    """Nothing is prefilled."""
    plain = Profile(alpha_ms=20, beta_ms=0.4, gamma_ms=0, delta_ms=0)
    slow = Profile(alpha_ms=20, beta_ms=0.4, gamma_ms=50, delta_ms=1)
    found = [
        analyze(Replica(profile=each, input_tokens=0, output_tokens=100, max_batch=4, max_queue=40), 1.0)
        for each in (plain, slow)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("service_ms", "batch"), [(19.2, 1.052632), (20, 5.263158), (50, 8), (100, 8), (1, 0)]
)
def test_the_batch_of_a_request_follows_from_its_time(service_ms, batch) -> None:
    """Never outside of what the replica runs."""
    one = np.ones(1)
    state = Steady(one, service_ms * one, 0 * one, one, one / 2, one / 2)
    assert Replicas([engine()]).effective_batch(state)[0] == pytest.approx(batch, abs=1e-6)
