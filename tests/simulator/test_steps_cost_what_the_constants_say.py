import msgspec
import pytest

from headgate.simulator.model import (
    DEFAULT_PROFILE,
    PROFILES,
    Engine,
    RequestId,
    SimulatedRequest,
    StepCosts,
    Submission,
    run_virtual,
)

SIMPLE = StepCosts(base_s=1.0, per_decode_sequence_s=0.1, per_kv_token_s=0.001, per_prefill_token_s=0.01)


def alone(profile: str, prompt_tokens: int, output_tokens: int):
    """One request on an idle engine."""
    request = SimulatedRequest(
        request_id=RequestId("a"), prompt_tokens=prompt_tokens, output_tokens=output_tokens
    )
    return run_virtual(Engine(PROFILES[profile].config), [Submission(0.0, request)]).finished[0]


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


@pytest.mark.parametrize(
    ("profile", "ttft_s", "tpot_s"),
    [
        ("8b-h100", (0.060, 0.120), (0.010, 0.015)),
        ("70b-8xh100", (0.150, 0.250), (0.018, 0.028)),
        ("3b-l40s", (0.099, 0.121), (0.013, 0.017)),
    ],
)
def test_a_lone_request_is_as_fast_as_published(profile, ttft_s, tpot_s):
    """TTFT of 256 prompt tokens and TPOT lie in the hardware's range (3B: a tenth around llm-d's profile)."""
    finished = alone(profile, 256, 100)
    assert ttft_s[0] <= finished.ttft_s <= ttft_s[1]
    assert tpot_s[0] <= finished.tpot_s <= tpot_s[1]


def test_the_a100_profile_reproduces_the_fit():
    """Decode of a 7B on A100: 14 ms + 0.5353 us x KV tokens + 0.10265 ms x batch."""
    costs = PROFILES["7b-a100"].config.costs
    assert costs.step_seconds(decode_sequences=64, kv_tokens=20_000, prefill_tokens=0) == pytest.approx(
        0.014 + 5.353e-7 * 20_000 + 1.0265e-4 * 64
    )


@pytest.mark.parametrize(
    ("profile", "alone_s", "factor"),
    [("8b-h100", 0.012, 2), ("70b-8xh100", 0.025, 3), ("3b-l40s", 0.015, 1.5)],
)
def test_a_full_batch_is_slower_by_the_load_factor(profile, alone_s, factor):
    """The profile's inter-token latency, alone and at a batch of 256, apart from reading the context."""
    costs = PROFILES[profile].config.costs
    one = costs.step_seconds(decode_sequences=1, kv_tokens=0, prefill_tokens=0)
    full = costs.step_seconds(decode_sequences=256, kv_tokens=0, prefill_tokens=0)
    assert one == pytest.approx(alone_s, rel=0.01)
    assert full == pytest.approx(alone_s * factor, rel=0.01)


def test_the_default_profile_exists():
    """The default names one of the profiles, and each profile is found by its own name."""
    assert DEFAULT_PROFILE in PROFILES
    assert all(name == profile.name for name, profile in PROFILES.items())
