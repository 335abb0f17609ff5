import msgspec
import pytest

from headgate.simulator.model import (
    Engine,
    StepCosts,
    Submission,
    run_virtual,
)

SIMPLE = StepCosts(base_s=1.0, per_decode_sequence_s=0.1, per_kv_token_s=0.001, per_prefill_token_s=0.01)


def test_a_step_time_is_the_sum_of_its_four_terms():
    """base + sequences x b + KV tokens x c + prefill tokens x d."""
    duration_s = SIMPLE.step_seconds(decode_sequences=2, kv_tokens=300, prefill_tokens=50)
    assert duration_s == pytest.approx(1.0 + 0.2 + 0.3 + 0.5)


def test_first_a_prefill_step_then_a_decode_step_per_token(small_engine, request_of):
    """A prompt of 10 costs one step with 10 prefill tokens; each further token reads one more token of KV."""
    durations = []
    run_virtual(
        Engine(small_engine(costs=SIMPLE)),
        [Submission(0.0, request_of("a", 10, 3))],
        on_step=lambda outcome: durations.append(outcome.duration_s),
    )
    assert durations == pytest.approx([1.1, 1.11, 1.111])


def test_a_mixed_step_charges_both_phases(small_engine, request_of):
    """A request that is prefilled slows the one that decodes in the same step."""
    engine = Engine(small_engine(costs=SIMPLE))
    engine.submit(request_of("a", 10, 3), 0.0)
    engine.step(0.0)
    engine.submit(request_of("b", 20, 3), 1.0)
    plan = engine.step(1.1).plan
    assert (plan.decode_sequences, plan.kv_tokens, plan.prefill_tokens) == (1, 10, 20)
    assert plan.duration_s == pytest.approx(1.0 + 0.1 + 0.01 + 0.2)


def test_times_below_a_millisecond_are_kept(small_engine, request_of):
    """Nothing is rounded: a step of 10 microseconds lasts 10 microseconds."""
    costs = msgspec.structs.replace(SIMPLE, base_s=1e-5, per_prefill_token_s=0.0)
    engine = Engine(small_engine(costs=costs))
    engine.submit(request_of("a"), 0.0)
    assert engine.step(0.0).duration_s == 1e-5


def test_a_step_that_prefills_has_a_base_and_a_floor_of_its_own():
    """The larger base counts; the floor is before what decoding adds."""
    costs = msgspec.structs.replace(SIMPLE, prefill_base_s=1.5, least_prefill_s=2.0)

    def step(**work):
        return costs.step_seconds(**{"decode_sequences": 0, "kv_tokens": 0, "prefill_tokens": 0, **work})

    assert step(prefill_tokens=10) == pytest.approx(2.0)
    assert step(prefill_tokens=100) == pytest.approx(1.5 + 1.0)
    assert step(prefill_tokens=10, decode_sequences=1, kv_tokens=100) == pytest.approx(2.0 + 0.1 + 0.1)
    assert step(decode_sequences=1) == pytest.approx(1.0 + 0.1)


def test_each_request_that_starts_makes_the_step_longer(small_engine, request_of):
    """Once for each, in its first step only."""
    costs = msgspec.structs.replace(SIMPLE, per_start_s=10.0)
    engine = Engine(small_engine(costs=costs, prefill_budget_tokens=20))
    durations = []
    run_virtual(
        engine,
        [Submission(0.0, request_of("a", 10, 2)), Submission(0.0, request_of("b", 20, 2))],
        on_step=lambda outcome: durations.append(outcome.duration_s),
    )
    assert durations[0] == pytest.approx(1.0 + 0.2 + 20.0)
    assert max(durations[1:]) < 2.0


def test_steps_may_take_longer_and_shorter(small_engine, request_of):
    """Around what the constants say, never far from it, and the same in every run."""

    def durations(jitter):
        told = []
        engine = small_engine(costs=SIMPLE, max_model_len=4000, kv_blocks=1000, step_jitter=jitter)
        run_virtual(
            Engine(engine),
            [Submission(0.0, request_of("a", 10, 2000))],
            on_step=lambda outcome: told.append(outcome.duration_s),
        )
        return told

    shares = [one / other for one, other in zip(durations(0.2), durations(0.0), strict=True)]
    mean = sum(shares) / len(shares)
    deviation = (sum((share - mean) ** 2 for share in shares) / len(shares)) ** 0.5
    assert mean == pytest.approx(1.0, abs=0.02)
    assert deviation == pytest.approx(0.2, abs=0.02)
    wild = [one / other for one, other in zip(durations(1.0), durations(0.0), strict=True)]
    assert min(wild) == pytest.approx(0.3)
    assert max(wild) == pytest.approx(1.7)
    assert durations(0.2) == durations(0.2)
