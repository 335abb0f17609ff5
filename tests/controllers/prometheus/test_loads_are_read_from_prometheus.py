"""The load of a model by vLLM's metrics in a real Prometheus: arrivals, not completions.

What is missing, stale or cannot be read is never 0 instead.
"""

import asyncio

import pytest

from headgate.controllers import prometheus_client
from headgate.controllers.planning.prometheus_loads import FRESH_S, PrometheusLoads
from headgate.planning.load import METRICS_MISSING, METRICS_STALE, PROMETHEUS_ERROR, Load
from headgate.planning.settings_map import PrometheusSettings

EARLIER, LATER = -1800.0, 600.0
"""Samples are from this time on, in seconds from now, and until then."""


def engine(model: str, *, namespace: str | None = "team", pod: str = "a", itl: str = "inter_token_latency"):
    """Two requests end each second, and 2.5 arrive: of those that stay, four fifths run, and others wait."""
    labels = f'model_name="{model}",pod="{pod}"'
    if namespace is not None:
        labels += f',namespace="{namespace}"'
    series = {
        f'vllm:request_success_total{{{labels},finished_reason="stop"}}': lambda at: 1.5 * at,
        f'vllm:request_success_total{{{labels},finished_reason="length"}}': lambda at: 0.5 * at,
        f"vllm:num_requests_running{{{labels}}}": lambda at: 0.4 * at,
        f"vllm:num_requests_waiting{{{labels}}}": lambda at: 0.1 * at,
    }
    for name, mean, number in (
        ("request_prompt_tokens", 700, 2),
        ("request_generation_tokens", 90, 2),
        ("time_to_first_token_seconds", 0.25, 2),
        (f"{itl}_seconds", 0.02, 180),
    ):
        series[f"vllm:{name}_sum{{{labels}}}"] = lambda at, each=mean * number: each * at
        series[f"vllm:{name}_count{{{labels}}}"] = lambda at, each=number: each * at
    for most, number in (("500.0", 1.0), ("1000.0", 1.7), ("2000.0", 2.0), ("+Inf", 2.0)):
        buckets = f'vllm:request_prompt_tokens_bucket{{{labels},le="{most}"}}'
        series[buckets] = lambda at, each=number: each * at
    series[f"vllm:prefix_cache_hits_total{{{labels}}}"] = lambda at: 350.0 * at
    series[f"vllm:prefix_cache_queries_total{{{labels}}}"] = lambda at: 1400.0 * at
    return series


@pytest.fixture
async def loads_of():
    made = []

    def make(prometheus, **options) -> PrometheusLoads:
        made.append(PrometheusLoads(PrometheusSettings(url=prometheus.url), **options))
        return made[-1]

    yield make
    for each in made:
        await each.close()


def expected(engines: int = 1, *, waiting: int | None = None):
    return {
        "arrivals_per_s": pytest.approx(2.5 * engines, rel=0.02),
        "prompt_tokens": pytest.approx(700, rel=0.01),
        "output_tokens": pytest.approx(90, rel=0.01),
        "cached_share": pytest.approx(0.25, rel=0.01),
        "prompt_spread": pytest.approx(0.545, rel=0.05),
        "ttft_ms": pytest.approx(250, rel=0.01),
        "itl_ms": pytest.approx(20, rel=0.01),
    }


async def test_a_load_is_the_sum_of_all_engines(prometheus_of, loads_of):
    """Of this model in this namespace, with the older and the newer name of its time between tokens."""
    prometheus = prometheus_of()
    other = {name: lambda at: 100.0 * at for name in engine("llama", namespace="others")}
    strange = r"we\"ird\\"
    remembered = {
        **engine("llama"),
        **engine("llama", pod="b"),
        **other,
        **engine("alone", itl="time_per_output_token"),
        **engine(strange, namespace=None),
    }
    prometheus.remember(remembered, since_s=EARLIER, until_s=LATER)
    await prometheus.start()
    loads = loads_of(prometheus)
    load = await loads.collect("llama", "team")
    assert isinstance(load, Load), load
    assert {name: getattr(load, name) for name in expected()} == expected(engines=2)
    assert load.waiting == pytest.approx(2 * 180, rel=0.2)
    load = await loads.collect("alone", "team")
    assert {name: getattr(load, name) for name in expected()} == expected()
    load = await loads.collect('we"ird\\', "anywhere")
    assert {name: getattr(load, name) for name in expected()} == expected(), "no series has a namespace"
    over = await loads.requests_over("alone", "team", 600)
    assert over == pytest.approx(2 * 600 + 0.5 * 1800, rel=0.1)
    assert loads.collected == {"read": 3, "missing": 0}


async def test_what_is_missing_stale_or_idle_is_told_apart(prometheus_of, loads_of):
    prometheus = prometheus_of()
    idle = {name: lambda at: 7.0 for name in engine("idle")}
    idle |= {name: lambda at: 0.0 for name in idle if "num_requests" in name}
    idle['vllm:num_requests_running{model_name="fresh",namespace="team"}'] = lambda at: 0.0
    prometheus.remember(idle, since_s=EARLIER, until_s=LATER)
    prometheus.remember(engine("gone"), since_s=EARLIER, until_s=-900.0)
    wrong = {name: lambda at: float("nan") for name in engine("wrong")}
    prometheus.remember(wrong, since_s=EARLIER, until_s=LATER)
    prometheus.remember(engine("scarce"), since_s=-100.0, until_s=-85.0)
    await prometheus.start()
    loads = loads_of(prometheus)
    assert await loads.collect("idle", "team") == Load(arrivals_per_s=0.0)
    assert await loads.collect("fresh", "team") == Load(arrivals_per_s=0.0), "nothing has completed yet"
    assert await loads.requests_over("fresh", "team", 600) == 0
    assert await loads.requests_over("idle", "team", 600) == 0
    reason, told = await loads.collect("gone", "team")
    assert reason == METRICS_STALE
    assert "s old: check that Prometheus scrapes the engines" in told
    reason, told = await loads.collect("nobody", "team")
    assert reason == METRICS_MISSING
    assert 'no vllm:request_success_total{model_name="nobody",namespace="team"}' in told
    reason, told = await loads.collect("wrong", "team")
    assert (reason, "no finite number" in told) == (PROMETHEUS_ERROR, True)
    reason, told = await loads.collect("scarce", "team")
    assert (reason, "not scraped scarce in team long enough" in told) == (METRICS_STALE, True)
    reason, _ = await loads.requests_over("nobody", "team", 600)
    assert reason == METRICS_MISSING
    assert (await loads.collect("x" * 2000, "team")).reason == METRICS_MISSING


async def test_rates_need_samples_from_the_beginning_of_their_time(prometheus_of, loads_of):
    """Otherwise they would be too low, as after a restart of Prometheus: replicas in use would go."""
    prometheus = prometheus_of()
    prometheus.remember(engine("young") | engine("resumed") | engine("back"), since_s=-15.0, until_s=LATER)
    prometheus.remember(engine("resumed"), since_s=EARLIER, until_s=-240.0)
    prometheus.remember(engine("back"), since_s=EARLIER, until_s=-75.0)
    prometheus.remember(engine("known"), since_s=-90.0, until_s=LATER)
    await prometheus.start()
    loads = loads_of(prometheus)
    for name in ("young", "resumed", "back"):
        reason, told = await loads.collect(name, "team")
        assert (reason, f"not scraped {name} in team long enough" in told) == (METRICS_STALE, True)
    load = await loads.collect("known", "team")
    assert isinstance(load, Load), load
    assert load.arrivals_per_s == pytest.approx(2.5, rel=0.02)


async def test_faults_of_the_server_are_errors_until_they_are_over(prometheus_of, loads_of, monkeypatch):
    """It is stopped, suspended, and started again."""
    monkeypatch.setattr(prometheus_client, "QUERY_S", 2.0)
    now = [100.0]
    prometheus = prometheus_of()
    prometheus.remember(engine("llama"), since_s=EARLIER, until_s=LATER)
    loads = loads_of(prometheus, clock=lambda: now[0])

    async def reason() -> str:
        now[0] += FRESH_S
        found = await loads.collect("llama", "team")
        return "" if isinstance(found, Load) else f"{found.reason}: {found.message}"

    async def recovers() -> None:
        async with asyncio.timeout(120):
            while await reason():
                await asyncio.sleep(0.1)

    assert (await reason()).startswith(f"{PROMETHEUS_ERROR}: Prometheus cannot be asked")
    await prometheus.start()
    await recovers()
    prometheus.suspend()
    assert await reason() == f"{PROMETHEUS_ERROR}: Prometheus did not answer within 2 s"
    prometheus.resume()
    await recovers()
    await prometheus.stop()
    assert (await reason()).startswith(f"{PROMETHEUS_ERROR}: Prometheus cannot be asked")
    await prometheus.start()
    await recovers()
