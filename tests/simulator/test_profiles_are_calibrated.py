"""Profiles are held to what was published: fits, latency profiles, and ranges that were measured."""

import pytest

from headgate.scheduling import LeastWork
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.model import (
    DEFAULT_PROFILE,
    PROFILES,
    Engine,
    RequestId,
    SimulatedRequest,
    Submission,
    run_virtual,
)
from headgate.traffic.traces import TimedRequest

LATENCIES = {
    # name: overhead, seconds per prompt token, inter-token latency alone, load factor at a full batch
    "8b-h100": (0.030, 250e-6, 0.012, 2.0),
    "70b-8xh100": (0.080, 500e-6, 0.025, 3.0),
    "3b-l40s": (0.020, 350e-6, 0.015, 1.5),
}
RANGES = {
    # name: TTFT of 256 prompt tokens, inter-token latency, of a lone request
    "8b-h100": ((0.060, 0.120), (0.010, 0.015)),
    "70b-8xh100": ((0.150, 0.250), (0.018, 0.028)),
    "13b-h100": ((0.120, 0.200), (0.015, 0.022)),
    "8b-l40s": ((0.180, 0.280), (0.025, 0.035)),
}


def alone(profile: str, prompt_tokens: int, output_tokens: int):
    """One request on an idle engine."""
    request = SimulatedRequest(
        request_id=RequestId("a"), prompt_tokens=prompt_tokens, output_tokens=output_tokens
    )
    return run_virtual(Engine(PROFILES[profile].config), [Submission(0.0, request)]).finished[0]


def step_s(profile: str, **work: int) -> float:
    nothing = {"decode_sequences": 0, "kv_tokens": 0, "prefill_tokens": 0}
    return PROFILES[profile].config.costs.step_seconds(**{**nothing, **work})


@pytest.mark.parametrize("tokens", [1, 100, 299, 301, 512])
def test_the_a100_prefills_as_fitted(tokens):
    """max(40 ms, 67.69 us x tokens + 19.69 ms), in a batch of at most 512 tokens."""
    fitted_s = max(0.04, 6.769e-5 * tokens + 0.01969)
    assert step_s("7b-a100", prefill_tokens=tokens) == pytest.approx(fitted_s)
    assert alone("7b-a100", tokens, 1).ttft_s == pytest.approx(fitted_s)
    assert PROFILES["7b-a100"].config.prefill_budget_tokens == 512


@pytest.mark.parametrize(("batch", "kv_tokens"), [(1, 200), (64, 20_000), (256, 44_000)])
def test_the_a100_decodes_as_fitted(batch, kv_tokens):
    """14 ms + 0.5353 us x KV tokens + 0.10265 ms x batch."""
    fitted_s = 0.014 + 5.353e-7 * kv_tokens + 1.0265e-4 * batch
    assert step_s("7b-a100", decode_sequences=batch, kv_tokens=kv_tokens) == pytest.approx(fitted_s)


def test_the_a100_has_the_cache_of_the_fit():
    """2810 blocks of 16 tokens, and 256 sequences at most."""
    config = PROFILES["7b-a100"].config
    assert (config.kv_blocks, config.block_size, config.max_num_seqs) == (2810, 16, 256)


def test_the_a100_decodes_a_whole_answer_as_fitted():
    """The mean workload of that simulator, 202 tokens in and 179 out, sums up to the fit's integral."""
    fitted_s = sum(0.014 + 1.0265e-4 + 5.353e-7 * (202 + done) for done in range(178))
    finished = alone("7b-a100", 202, 179)
    assert finished.finished_s - finished.first_token_s == pytest.approx(fitted_s)


@pytest.mark.parametrize("profile", LATENCIES)
@pytest.mark.parametrize("tokens", [64, 256, 1024, 4096, 8100])
def test_a_lone_prompt_takes_what_its_latency_profile_says(profile, tokens):
    """TTFT = overhead + tokens x time per token, within 10 %: long prompts pay the base of each chunk."""
    overhead_s, token_s, *_ = LATENCIES[profile]
    assert alone(profile, tokens, 1).ttft_s == pytest.approx(overhead_s + tokens * token_s, rel=0.1)


@pytest.mark.parametrize("profile", LATENCIES)
def test_cached_tokens_take_no_time(profile):
    """TTFT counts uncached tokens only: half of a prompt is cached, and is paid for by the other half."""
    overhead_s, token_s, *_ = LATENCIES[profile]
    engine = Engine(PROFILES[profile].config)
    ends = [
        run_virtual(
            engine,
            [
                Submission(
                    0.0,
                    SimulatedRequest(
                        request_id=RequestId(name), prompt_tokens=2048, output_tokens=1, blocks=range(blocks)
                    ),
                )
            ],
        ).finished[0]
        for name, blocks in (("first", 64), ("second", 64))
    ]
    assert ends[1].cached_tokens == 1024
    assert ends[1].ttft_s == pytest.approx(overhead_s + 1024 * token_s, rel=0.1)


@pytest.mark.parametrize("profile", LATENCIES)
def test_the_pace_is_that_of_the_latency_profile_alone_and_in_a_full_batch(profile):
    """L alone, L x F at 256 sequences, and in between L x (1 + (F - 1) x (r - 1) / 255), within 1 %; apart
    from reading the context."""
    _, _, alone_s, factor = LATENCIES[profile]
    for running in (1, 64, 128, 256):
        expected_s = alone_s * (1 + (factor - 1) * (running - 1) / 255)
        assert step_s(profile, decode_sequences=running) == pytest.approx(expected_s, rel=0.01)


@pytest.mark.parametrize("profile", RANGES)
def test_a_lone_request_is_as_fast_as_measured(profile):
    """TTFT of 256 prompt tokens and TPOT lie in the hardware's range."""
    (least_ttft_s, most_ttft_s), (least_tpot_s, most_tpot_s) = RANGES[profile]
    finished = alone(profile, 256, 100)
    assert least_ttft_s <= finished.ttft_s <= most_ttft_s
    assert least_tpot_s <= finished.tpot_s <= most_tpot_s


def test_weights_of_8_bits_decode_twice_as_fast():
    """Half the bytes to read; what is read of the cache stays."""
    for running in (1, 256):
        half_s = step_s("8b-h100-fp8", decode_sequences=running)
        assert half_s == pytest.approx(step_s("8b-h100", decode_sequences=running) / 2, rel=0.01)


def test_a_cache_is_handed_over_at_the_published_time_per_token():
    """70B over 40 GB/s: 8 us a token, within 5 %."""
    group = {"engine": PROFILES["70b-8xh100"].config}
    description = FleetDescription(
        groups=(
            EngineGroup(name="p", role="prefill", **group),
            EngineGroup(name="d", role="decode", **group),
        ),
        link_bytes_per_s=40e9,
    )
    request = TimedRequest(at_s=0.0, prompt_tokens=8000, output_tokens=1)
    (record,) = run_fleet([request], description, LeastWork(), seed=1).records
    prefill_s = alone("70b-8xh100", 8000, 1).ttft_s
    last_token_s = step_s("70b-8xh100", prefill_tokens=1, starts=1)
    assert record.ttft_s - prefill_s - last_token_s == pytest.approx(8000 * 8e-6, rel=0.05)


def test_the_default_profile_exists():
    """The default names one of the profiles, and each profile is found by its own name."""
    assert DEFAULT_PROFILE in PROFILES
    assert all(name == profile.name for name, profile in PROFILES.items())
