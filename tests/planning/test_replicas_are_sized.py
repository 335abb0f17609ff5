"""The highest rate that meets the targets, and how many replicas a load needs."""

import pytest

from headgate.planning.queueing import analyze
from headgate.planning.replica import ModelError, Profile, Replica
from headgate.planning.sizing import Infeasible, Sizer, Sizing, Targets, fewest, size

SMALL = Replica(
    profile=Profile(alpha_ms=1, beta_ms=0.01, gamma_ms=10, delta_ms=0.001),
    input_tokens=100,
    output_tokens=10,
    max_batch=8,
    max_queue=16,
)


def mean(ttft: float = 0, itl: float = 0, tps: float = 0) -> Targets:
    return Targets(ttft_ms=ttft, itl_ms=itl, tokens_per_s=tps, percentile=None)


def sized(model: Replica, targets: Targets) -> Sizing:
    found = size(model, targets)
    assert isinstance(found, Sizing), found
    return found


def test_each_target_has_its_rate() -> None:
    """Targets that hold at every rate give the highest one; throughput leaves a tenth of it."""
    found = sized(SMALL, mean(50, 5, 100))
    assert found.ttft_rate_per_s == pytest.approx(389.47368, rel=1e-4)
    assert found.itl_rate_per_s == pytest.approx(389.47368, rel=1e-4)
    assert found.tps_rate_per_s == pytest.approx(350.52631, rel=1e-4)
    assert found.binding == "tps"


def test_without_targets_a_replica_is_used_to_its_limit() -> None:
    """What it accepts is less than what arrives."""
    found = sized(SMALL, mean())
    assert found.rate_per_s == pytest.approx(389.47368, rel=1e-4)
    assert found.capacity_per_s == pytest.approx(370.50408, rel=1e-4)
    assert found.at_limit.ttft_ms == pytest.approx(28.74, rel=1e-3)


@pytest.mark.parametrize(("targets", "rate"), [(mean(12), 254.2062), (mean(itl=1.05), 203.9375)])
def test_a_target_limits_the_rate(targets, rate) -> None:
    """Of the first token, and of the others."""
    assert sized(SMALL, targets).rate_per_s == pytest.approx(rate, rel=1e-4)


def test_a_target_that_even_an_idle_replica_misses_is_infeasible() -> None:
    """The result has the best possible value."""
    found = size(SMALL, mean(5))
    assert found == Infeasible("TTFT", 5.0, pytest.approx(10.1, rel=1e-3))
    assert found.message == "TTFT of 5 ms cannot be met: an idle replica has 10.1 ms"
    assert isinstance(size(SMALL, Targets(ttft_ms=5)), Infeasible)


@pytest.mark.parametrize(
    "wrong", [{"ttft_ms": -1}, {"itl_ms": -1}, {"tokens_per_s": -1}, {"percentile": 100}]
)
def test_impossible_targets_are_refused(wrong) -> None:
    """Negative ones, and all requests."""
    with pytest.raises(ModelError, match=next(iter(wrong))):
        Targets(**wrong)


def test_a_decoding_time_that_does_not_depend_on_the_batch_is_met_or_missed(replica) -> None:
    """A target above it holds at every rate, one below it at none."""
    flat = replica(20, 0, 5, 0.1, batch=4, prompt=128, response=128)
    assert sized(flat, mean(itl=24)).rate_per_s == flat.max_rate_per_s
    assert sized(flat, mean(itl=20)).rate_per_s == flat.max_rate_per_s
    assert size(flat, mean(itl=19)) == Infeasible("ITL", 19.0, 20.0)


GEMMA = {"alpha": 20.58, "beta": 0.41, "gamma": 5.2, "delta": 0.1, "batch": 4}
H100 = {"alpha": 6.958, "beta": 0.042, "gamma": 5.2, "delta": 0.1, "batch": 512}
L40S = {"alpha": 22.619, "beta": 0.181, "gamma": 226.19, "delta": 0.018, "batch": 512}
A100 = {"alpha": 20.58, "beta": 0.41, "gamma": 20.58, "delta": 0.041, "batch": 4}
DECODER = {"alpha": 20.28, "beta": 0.72, "gamma": 0, "delta": 0, "batch": 4}
LLAMA = {"alpha": 5, "beta": 2, "gamma": 10, "delta": 1.5, "batch": 16}


@pytest.mark.parametrize(
    ("engine", "tokens", "targets", "capacity", "replicas"),
    [
        (GEMMA, (0, 178), (500, 24), 0.564831, {20: 1, 41.32: 2, 60: 2, 120: 4}),
        (GEMMA, (128, 128), (500, 24), 0.815596, {60: 2}),
        (H100, (128, 512), (1000, 9), 9.11104, {480: 1, 960: 2, 1440: 3}),
        (L40S, (128, 512), (1000, 30), 2.54176, {480: 4}),
        (A100, (100, 128), (500, 24), 0.826288, {30: 1, 60: 2}),
        (DECODER, (0, 200), (500, 80), 0.465951, {40: 2, 1200: 43, 2400: 86}),
        (LLAMA, (100, 200), (2000, 500), 1.38498, {30: 1, 60: 1, 90: 2, 120: 2, 150: 2, 360: 5}),
        ({**LLAMA, "batch": 12}, (100, 200), (2000, 500), 1.32325, {60: 1}),
    ],
)
def test_a_load_needs_so_many_replicas(replica, engine, tokens, targets, capacity, replicas) -> None:
    """Loads in requests per minute, targets for the mean."""
    model = replica(**engine, prompt=tokens[0], response=tokens[1])
    found = sized(model, mean(*targets))
    assert found.capacity_per_s == pytest.approx(capacity, rel=1e-4)
    assert {rpm: fewest(rpm / 60, found.capacity_per_s) for rpm in replicas} == replicas


@pytest.mark.parametrize(
    ("engine", "tokens", "rate_per_s", "itl", "ttft"),
    [
        (GEMMA, (128, 128), 0.5, 21.5325, 104.267),
        (H100, (128, 512), 8, 8.66402, 525.13),
        (L40S, (128, 512), 2, 28.1063, 296.04),
        (A100, (100, 128), 0.5, 21.5318, 97.823),
        (DECODER, (0, 200), 1 / 3, 21.9974, 138.125),
        (LLAMA, (100, 200), 0.5, 9.139, 320.43),
        (LLAMA, (100, 200), 1, 13.863, 677.8),
        (LLAMA, (100, 200), 1.25, 19.065, 1170.86),
        ({**LLAMA, "batch": 12}, (100, 200), 1, 13.8088, 695.03),
        (LLAMA, (100, 200), 0.01, 7.03123, 162.342),
    ],
)
def test_mean_latencies_are_predicted(replica, engine, tokens, rate_per_s, itl, ttft) -> None:
    """At the rate of one replica."""
    found = analyze(replica(**engine, prompt=tokens[0], response=tokens[1]), rate_per_s)
    assert found.itl_ms == pytest.approx(itl, rel=1e-4)
    assert found.ttft_ms == pytest.approx(ttft, rel=1e-4)


@pytest.mark.parametrize(
    ("engine", "tokens", "rate_per_s", "itl", "ttft"),
    [
        (GEMMA, (0, 178), 20 / 60, 21.4614, 67.95),
        (GEMMA, (0, 178), 41.32 / 120, 21.4769, 76.59),
        (GEMMA, (0, 178), 0.5, 21.6829, 309.33),
        (H100, (0, 512), 8, 8.44083, 0),
        ({**GEMMA, "batch": 256}, (0, 1024), 86.79 / 300, 23.883595, 0),
    ],
)
def test_without_prompts_gamma_is_not_subtracted(replica, engine, tokens, rate_per_s, itl, ttft) -> None:
    """The reference subtracts it, so that its ITL is lower by gamma for each decoded token."""
    found = analyze(replica(**engine, prompt=tokens[0], response=tokens[1]), rate_per_s)
    assert found.itl_ms - engine["gamma"] / (tokens[1] - 1) == pytest.approx(itl, rel=1e-4)
    assert found.ttft_ms == pytest.approx(ttft, rel=1e-4, abs=1e-9)


def test_rates_of_the_reference_follow_from_its_targets(replica) -> None:
    """Its published logs, with gamma subtracted or absent: the same rates for shifted targets."""
    h100 = replica(6.958, 0.042, 5.2, 0.1, batch=512, prompt=0, response=512)
    found = sized(h100, mean(1000, 9 + 5.2 / 511))
    assert found.ttft_rate_per_s == pytest.approx(34.7476, rel=1e-4)
    assert found.itl_rate_per_s == pytest.approx(10.3951, rel=1e-4)
    wide = replica(20.58, 0.41, 5.2, 0.1, batch=256, prompt=0, response=1024)
    assert sized(wide, mean(500, 24 + 5.2 / 1023)).capacity_per_s * 60 == pytest.approx(17.967499, rel=1e-4)
    assert fewest(86.79 / 60, sized(wide, mean(500, 24)).capacity_per_s) == 5
    assert analyze(wide, 86.79 / 300).utilization == pytest.approx(0.0276170, rel=1e-4)
    older = replica(20.58, 0.41, 0, 0, batch=4, prompt=0, response=179)
    found = sized(older, mean(500 / 2.995732, 24))
    assert found.capacity_per_s * 60 == pytest.approx(25.31145, rel=1e-4)
    half = analyze(older, 41.32 / 120)
    assert half.wait_ms == pytest.approx(78.63574, rel=1e-4)
    assert (half.response_ms - half.wait_ms) / 178 == pytest.approx(21.509005, rel=1e-4)


def test_an_engine_that_is_too_slow_is_told(replica) -> None:
    """Its steps take longer than the target of each token."""
    slow = replica(22.619, 0.181, 226.19, 0.018, batch=512, prompt=128, response=512)
    assert size(slow, mean(1000, 9)) == Infeasible("ITL", 9.0, pytest.approx(22.8, rel=1e-2))
    assert isinstance(
        size(replica(5, 2, 10, 1.5, batch=16, prompt=100, response=200), mean(1, 0.1)), Infeasible
    )


@pytest.mark.parametrize(
    ("rate_per_s", "wait", "waits", "wait_95", "ttft", "ttft_95"),
    [
        (0.3, 10.248, 0.0113, 0, 38.25, 28.00),
        (0.5, 67.725, 0.0609, 219.2, 97.82, 249.3),
        (0.7, 240.063, 0.1678, 1732.1, 272.06, 1764.1),
        (0.826288, 466.912, 0.2675, 2927.5, 500.0, 2960.6),
        (0.9, 674.980, 0.3369, 3822.2, 708.66, 3855.9),
    ],
)
def test_the_percentile_of_waits_is_known(replica, rate_per_s, wait, waits, wait_95, ttft, ttft_95) -> None:
    """It is 0 while fewer than 5 % of the requests wait, and several times the mean under load."""
    model = replica(**A100, prompt=100, response=128)
    found = analyze(model, rate_per_s)
    assert found.wait_ms == pytest.approx(wait, rel=1e-4)
    assert found.ttft_ms == pytest.approx(ttft, rel=1e-4)
    assert found.ttft_percentile_ms == pytest.approx(ttft_95, rel=1e-4)
    assert found.ttft_percentile_ms - found.prefill_ms == pytest.approx(wait_95, rel=1e-4, abs=0.05)
    share = 100 * (1 - waits)
    assert analyze(model, rate_per_s, share + 0.01).ttft_percentile_ms > found.prefill_ms
    assert analyze(model, rate_per_s, share - 0.01).ttft_percentile_ms == pytest.approx(found.prefill_ms)


@pytest.mark.parametrize(
    ("engine", "tokens", "targets", "percentile_rate", "mean_rate", "share_at_mean"),
    [
        (A100, (100, 128), (500, 24), 0.53466, 0.82629, 0.7953),
        (GEMMA, (128, 128), (500, 0), 0.5311, 0.8156, 0.7985),
        (DECODER, (0, 200), (500, 0), 0.3212, 0.4660, 0.8356),
        (LLAMA, (100, 200), (2000, 0), 1.2973, 1.3850, 0.8709),
        (H100, (128, 512), (1000, 0), 12.3272, 12.3272, 1.0),
    ],
)
def test_a_percentile_needs_more_replicas_than_the_mean(
    replica, engine, tokens, targets, percentile_rate, mean_rate, share_at_mean
) -> None:
    """A replica sized for the mean misses the target for up to every fifth request. These are rates by the
    queue alone; those that are planned with are a bit lower, as prefills come in bursts."""
    model = replica(**engine, prompt=tokens[0], response=tokens[1])
    by_mean = sized(model, mean(*targets))
    by_share = sized(model, Targets(ttft_ms=targets[0], itl_ms=targets[1]))
    assert by_mean.rate_per_s == pytest.approx(mean_rate, abs=6e-5)
    assert min(by_share.queue) == pytest.approx(percentile_rate, abs=6e-5)
    assert percentile_rate * 0.97 < by_share.ttft_rate_per_s < percentile_rate + 6e-5
    if share_at_mean < 1:
        reached = analyze(model, by_mean.rate_per_s, 100 * share_at_mean).ttft_percentile_ms
        assert reached == pytest.approx(targets[0], rel=5e-3)


def test_a_load_needs_so_many_replicas_for_a_percentile(replica) -> None:
    """Beside those for the mean."""
    model = replica(**A100, prompt=100, response=128)
    percentile, by_mean = sized(model, Targets(ttft_ms=500)), sized(model, mean(500))
    needed = {
        rpm: (fewest(rpm / 60, percentile.capacity_per_s), fewest(rpm / 60, by_mean.capacity_per_s))
        for rpm in (120, 300, 600)
    }
    assert needed == {120: (4, 3), 300: (10, 7), 600: (19, 13)}


def test_sizings_are_remembered(replica) -> None:
    """The least recently used are forgotten first, and a repeated question is counted once."""
    models = [replica(**{**A100, "alpha": alpha}, prompt=100, response=128) for alpha in (20, 21, 22)]
    wanted = [(model, mean(500)) for model in models]
    sizer = Sizer(capacity=2)
    first = sizer.sizes([wanted[0], wanted[1], wanted[0]])
    alone = [sized(*each) for each in (wanted[0], wanted[1], wanted[0])]
    # Not exactly: what a CPU computes for several at once may differ in the last digit.
    rates = [each.rate_per_s for each in first if isinstance(each, Sizing)]
    assert rates == pytest.approx([each.rate_per_s for each in alone], rel=1e-9)
    assert first[0] == first[2]
    assert sizer.sizes(wanted[:1]) == first[:1]
    sizer.sizes(wanted[2:])
    assert sizer.sizes(wanted[:1]) == first[:1]
    assert sizer.statistics() == {"entries": 2, "hits": 3, "misses": 3}


def test_prefills_of_others_count_between_tokens(replica) -> None:
    """With a percentile. The reference, by the mean, has them in TTFT alone: 9.11 requests a second, at which
    the simulated engine takes 10.1 ms for a token instead of 9."""
    model = replica(**H100, prompt=128, response=512)
    assert sized(model, mean(1000, 9)).itl_rate_per_s == pytest.approx(9.11104, rel=1e-4)
    found = sized(model, Targets(ttft_ms=1000, itl_ms=9))
    assert found.queue.itl_per_s == pytest.approx(9.11104, rel=1e-4)
    assert found.itl_rate_per_s == pytest.approx(6.4593, rel=1e-4)
    assert found.at_limit.stalled_itl_ms == pytest.approx(9, rel=1e-4)
    assert found.at_limit.itl_ms < 8.5
