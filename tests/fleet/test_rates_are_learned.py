"""How fast an endpoint prefills is learned from its first tokens, whatever noise there is on them."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet
from headgate.fleet.fit import Fit

TOKEN_S = st.floats(1e-6, 1e-2)
DELAY_S = st.floats(0.0, 1.0)


def observe(rates: fleet.Rates, token_s: float, delay_s: float, rng: random.Random, times: int) -> None:
    """One in ten takes fifty times as long; the others are within a fifth of the truth."""
    for _ in range(times):
        tokens, starts = rng.randrange(1, 20_000), rng.randrange(2)
        noise = 50.0 if rng.random() < 0.05 else rng.uniform(0.8, 1.2)
        rates.learn(starts, tokens, (starts * delay_s + tokens * token_s) * noise)


@given(TOKEN_S, st.integers(0, 99))
def test_the_true_rate_is_found(token_s, seed):
    """From any rate to within a fifth of it, though there are outliers."""
    rates = fleet.Rates()
    observe(rates, token_s, 0.05, random.Random(seed), 400)
    assert rates.token_s == pytest.approx(token_s, rel=0.2, abs=1e-6)


def test_delay_and_rate_are_told_apart():
    """What an idle endpoint takes besides is not spread over the tokens."""
    rates = fleet.Rates()
    rng = random.Random(3)
    for _ in range(300):
        tokens = rng.randrange(1, 4000)
        rates.learn(1, tokens, 0.3 + tokens * 5e-5)
    assert rates.delay_s == pytest.approx(0.3, rel=0.02)
    assert rates.token_s == pytest.approx(5e-5, rel=0.05)


def test_a_changed_endpoint_shows():
    """Four times slower from now on: half of the way is learned within some seconds of work."""
    rates = fleet.Rates()
    rng = random.Random(4)
    observe(rates, 6e-5, 0.0, rng, 500)
    observe(rates, 24e-5, 0.0, rng, 80)
    assert rates.token_s > 15e-5
    observe(rates, 24e-5, 0.0, rng, 400)
    assert rates.token_s == pytest.approx(24e-5, rel=0.2)


@given(st.sampled_from((0.01, 0.1, 10.0, 100.0)), st.integers(0, 99))
def test_a_guess_that_is_far_off_is_soon_given_up(factor, seed):
    """A hundred times as long or short as was guessed: two dozen prompts tell it to within a third."""
    rates, rng = fleet.Rates(), random.Random(seed)
    token_s = rates.token_s * factor
    for _ in range(24):
        tokens = rng.randrange(2_000, 20_000)
        rates.learn(0, tokens, tokens * token_s * rng.uniform(0.8, 1.2))
    assert rates.token_s == pytest.approx(token_s, rel=0.34)


def test_stalls_in_between_are_no_streak():
    """Of every twenty prompts two in a row take ten times as long: they are surprises, each by itself."""
    rates = fleet.Rates()
    token_s = rates.token_s
    for number in range(200):
        rates.learn(0, 4_000, 4_000 * token_s * (10.0 if number % 20 in (3, 4) else 1.0))
    assert rates.token_s < 1.3 * token_s


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 10**7), st.floats(0.0, 1e6)), min_size=1, max_size=60
    )
)
def test_whatever_is_observed_rates_stay_rates(observations):
    """Never negative, never zero seconds for a token, never infinite."""
    rates = fleet.Rates()
    for starts, tokens, took_s in observations:
        rates.learn(starts, tokens, took_s)
        assert 0.0 < rates.token_s < 1e6
        assert 0.0 <= rates.delay_s < 1e9


def test_a_fork_goes_its_own_way():
    """It begins where the other is, and does not change it."""
    shared = fleet.Rates()
    observe(shared, 1e-4, 0.01, random.Random(1), 100)
    before = shared.token_s
    own = shared.fork()
    assert own.token_s == before
    observe(own, 1e-3, 0.01, random.Random(1), 300)
    assert own.token_s > 5 * before
    assert shared.token_s == before


def test_the_pace_of_decoding_is_followed():
    """It is the mean of late, and a stream that stalled moves it little."""
    rates = fleet.Rates()
    rates.learn_step(0.02)
    assert rates.step_s == 0.02
    rates.learn_step(60.0)
    assert rates.step_s == pytest.approx(0.02, rel=0.05)
    for _ in range(200):
        rates.learn_step(0.05)
    assert rates.step_s == pytest.approx(0.05, rel=0.02)
    assert rates.fork().step_s == rates.step_s


@given(st.booleans(), st.integers(0, 999))
def test_a_fit_of_amounts_that_hardly_differ_does_not_run_away(gives_up, seed):
    """What cannot be told apart may be told wrong, but what both come to together is right, however long that
    goes on."""
    fit, rng = Fit(50.0, 1.2, gives_up=gives_up), random.Random(seed)
    for _ in range(1_500):
        fit.learn(1.0, rng.uniform(8.0, 12.0), rng.choice((0.0, rng.uniform(20.0, 60.0), 1_000.0)))
        assert 0.0 <= fit.each_s < 2_000.0
        assert 0.0 < fit.per_s < 200.0
