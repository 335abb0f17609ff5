"""Profiles are fitted to what engines show: through noise, drift and outliers, and never without grounds."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.planning.fitting import MAX_MS, Observation, ProfileFit, StateError
from headgate.planning.replica import Profile

SPEC = Profile(alpha_ms=20.58, beta_ms=0.41, gamma_ms=5.2, delta_ms=0.1)
PARAMETERS = SPEC.__struct_fields__

true = st.builds(
    Profile,
    alpha_ms=st.floats(4, 100),
    beta_ms=st.floats(0.05, 2),
    gamma_ms=st.floats(2, 40),
    delta_ms=st.floats(0.02, 0.5),
)


def seen(truth: Profile, batch: float, tokens: float, rng: random.Random, noise: float = 0.05) -> Observation:
    """What an engine with these times shows."""
    return Observation(
        batch=batch,
        prompt_tokens=tokens,
        ttft_ms=(truth.gamma_ms + truth.delta_ms * tokens * batch) * rng.lognormvariate(0, noise),
        itl_ms=(truth.alpha_ms + truth.beta_ms * batch) * rng.lognormvariate(0, noise),
    )


def observe(fit: ProfileFit, truth: Profile, count: int, rng: random.Random, since_s: float = 0.0) -> None:
    """A minute between observations, at loads that come and go."""
    for number in range(count):
        batch = math.exp(rng.uniform(0, math.log(64)))
        fit.observe(seen(truth, batch, rng.uniform(50, 400), rng), since_s + 60 * number)


def assert_predicts(found: Profile, truth: Profile, within: float) -> None:
    for batch in (1, 8, 64):
        itl_ms = truth.alpha_ms + truth.beta_ms * batch
        prefill_ms = truth.gamma_ms + truth.delta_ms * 200 * batch
        assert found.alpha_ms + found.beta_ms * batch == pytest.approx(itl_ms, rel=within)
        assert found.gamma_ms + found.delta_ms * 200 * batch == pytest.approx(prefill_ms, rel=within)


@given(true, st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_a_noisy_engine_is_learned(truth: Profile, seed: int) -> None:
    """Within a few percent, from a spec that is off by a factor of up to five."""
    fit = ProfileFit()
    observe(fit, truth, 200, random.Random(seed))
    found = fit.fitted(SPEC)
    assert found.decode.is_used
    assert found.prefill.is_used
    assert_predicts(found.profile, truth, 0.1)


@given(true, true, st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_an_engine_that_changes_is_followed(first: Profile, second: Profile, seed: int) -> None:
    """Within some hours, whether it changes much or little."""
    rng, fit = random.Random(seed), ProfileFit()
    observe(fit, first, 200, rng)
    observe(fit, second, 300, rng, since_s=12_000)
    assert_predicts(fit.fitted(SPEC).profile, second, 0.15)


def test_an_engine_that_becomes_slower_is_followed() -> None:
    """Twice as slow after ten hours: the fit lags by about an hour."""
    rng, fit = random.Random(1), ProfileFit()
    now = SPEC
    for minute in range(600):
        factor = 1 + minute / 600
        now = Profile(**{name: getattr(SPEC, name) * factor for name in PARAMETERS})
        observe(fit, now, 1, rng, since_s=60.0 * minute)
    assert_predicts(fit.fitted(SPEC).profile, now, 0.2)


HOSTILE = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-308, 1e308, MAX_MS, 1.0])


@given(st.lists(st.tuples(HOSTILE, HOSTILE, HOSTILE, HOSTILE), max_size=40), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_impossible_numbers_do_no_harm(rows: list[tuple[float, float, float, float]], seed: int) -> None:
    """Every result is a profile within the bounds of the spec."""
    rng, fit = random.Random(seed), ProfileFit()
    for number, (batch, tokens, ttft_ms, itl_ms) in enumerate(rows):
        fit.observe(
            Observation(batch=batch, prompt_tokens=tokens, ttft_ms=ttft_ms, itl_ms=itl_ms), float(number)
        )
    found = fit.fitted(SPEC).profile
    assert all(math.isfinite(getattr(found, name)) for name in PARAMETERS)
    observe(fit, SPEC, 200, rng, since_s=100.0)
    assert_predicts(fit.fitted(SPEC).profile, SPEC, 0.15)


@given(true, st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_outliers_are_ignored(truth: Profile, seed: int) -> None:
    """A fifth of the observations is wrong by up to a factor of a thousand, in either direction."""
    rng, fit = random.Random(seed), ProfileFit()
    for number in range(300):
        each = seen(truth, math.exp(rng.uniform(0, math.log(64))), rng.uniform(50, 400), rng)
        if rng.random() < 0.2:
            factor = math.exp(rng.uniform(-7, 7))
            each = Observation(
                batch=each.batch,
                prompt_tokens=each.prompt_tokens,
                ttft_ms=each.ttft_ms * factor,
                itl_ms=each.itl_ms * factor,
            )
        fit.observe(each, 60.0 * number)
    assert_predicts(fit.fitted(SPEC).profile, truth, 0.4)


def test_one_batch_size_teaches_nothing() -> None:
    """Two numbers cannot be told apart by it: the spec's stay, with the reason."""
    rng, fit = random.Random(1), ProfileFit()
    for number in range(500):
        fit.observe(seen(SPEC, 16, 200, rng), 60.0 * number)
    found = fit.fitted(Profile(alpha_ms=10, beta_ms=1, gamma_ms=1, delta_ms=1))
    assert found.profile == Profile(alpha_ms=10, beta_ms=1, gamma_ms=1, delta_ms=1)
    assert found.decode.reason == "12 observations of 20"


def test_a_steady_load_forgets_no_other() -> None:
    """Days at one batch size leave what was learned at others."""
    rng, fit = random.Random(1), ProfileFit()
    truth = Profile(alpha_ms=7, beta_ms=0.1, gamma_ms=20, delta_ms=0.02)
    observe(fit, truth, 200, rng)
    for number in range(2000):
        fit.observe(seen(truth, 16, 200, rng), 12_000 + 60.0 * number)
    found = fit.fitted(SPEC)
    assert found.decode.is_used
    assert found.prefill.is_used
    assert_predicts(found.profile, truth, 0.15)


def test_times_that_are_far_from_the_spec_are_bounded() -> None:
    """At a tenth of what the spec says: something else is wrong then."""
    rng, fit = random.Random(1), ProfileFit()
    observe(fit, Profile(alpha_ms=0.01, beta_ms=0.0001, gamma_ms=0.01, delta_ms=1e-6), 200, rng)
    found = fit.fitted(SPEC)
    assert (found.decode.line.intercept, found.decode.line.slope) == pytest.approx((2.058, 0.041))
    assert not found.decode.is_used
    assert found.profile == SPEC


def test_a_spec_without_a_number_is_completed() -> None:
    """A prefill of zero, as in many examples, is learned."""
    rng, fit = random.Random(1), ProfileFit()
    observe(fit, SPEC, 200, rng)
    found = fit.fitted(Profile(alpha_ms=20.58, beta_ms=0, gamma_ms=0, delta_ms=0))
    assert_predicts(found.profile, SPEC, 0.1)


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_order_does_not_count(seed: int) -> None:
    """As long as the observations of a batch size are as many as are kept."""
    rng = random.Random(seed)
    rows = [seen(SPEC, batch, 200, rng) for batch in (1, 2, 4, 8, 16, 32) for _ in range(10)]
    first, second = ProfileFit(), ProfileFit()
    for each in rows:
        first.observe(each, 0.0)
    rng.shuffle(rows)
    for each in rows:
        second.observe(each, 0.0)
    found, other = first.fitted(SPEC).profile, second.fitted(SPEC).profile
    assert [getattr(found, name) for name in PARAMETERS] == pytest.approx(
        [getattr(other, name) for name in PARAMETERS], rel=1e-6
    )


@given(true, st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_a_fit_survives_a_restart(truth: Profile, seed: int) -> None:
    """Written as JSON and read again, it goes on as it was."""
    fit, rng = ProfileFit(), random.Random(seed)
    observe(fit, truth, 150, rng)
    again = ProfileFit.load(fit.dump())
    assert again.dump() == fit.dump()
    assert again.fitted(SPEC) == fit.fitted(SPEC)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"decode": [[1, 2]]}',
        b'{"decode": [[1, 1e308, 0]]}',
        b'{"decode": [[0, 1, 0]]}',
        b"{" * 9,
    ],
)
def test_a_state_that_is_none_is_refused(data: bytes) -> None:
    """With the reason."""
    with pytest.raises(StateError, match="not the state of a fit"):
        ProfileFit.load(data)
