"""Gauges are added up over series, counters become rates, and histograms one quantile of all Pods."""

import httpx2
import pytest

from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings, listen, running

WAITING = "kthena:num_requests_waiting"
TTFT = "vllm:time_to_first_token_seconds"


TYPE = "# TYPE wait_seconds histogram\n"


def histogram(*counts: int, labels: str = "", head: str = TYPE) -> str:
    """Buckets up to 0.5, 0.75 and infinity, with cumulative counts."""
    bounds = ("0.5", "0.75", "+Inf")
    name = "wait_seconds"
    lines = [
        f'{name}_bucket{{{labels}le="{bound}"}} {count}' for bound, count in zip(bounds, counts, strict=True)
    ]
    return head + "\n".join(
        [*lines, f"{name}_sum{{{labels}}} 1", f"{name}_count{{{labels}}} {counts[-1]}", ""]
    )


async def test_a_gauge_is_the_sum_of_its_series(pods, metrics, page):
    pod = await pods.add("a", page('waiting{model="x"} 3\nwaiting{model="y"} 4.5\nother 9\n'))
    (values,) = await metrics.read([pod], pods.port, "/metrics?x=1", ["waiting", "missing"], 10)
    assert values == {"waiting": 7.5}
    assert pods.asked == ["a /metrics?x=1"]


async def test_a_counter_is_a_rate_over_a_minute(pods, metrics, clock, page):
    """Missing after the first read, then over what there is, up to a minute."""
    names = ["tokens_total"]

    def tokens(count: int) -> None:
        pods.behaviors["a"] = page(f"# TYPE tokens_total counter\ntokens_total {count}\n")

    pod = await pods.add("a", page(""))
    found = []
    for count in (1000, 1150, 1300, 1450, 1600, 1900, 2200):
        tokens(count)
        (values,) = await metrics.read([pod], pods.port, "/metrics", names, 10)
        found.append(values.get("tokens_total"))
        clock.now += 15
    assert found == [None, 10, 10, 10, 10, 12.5, 15]


async def test_a_histogram_is_one_quantile_of_all_pods(pods, metrics, clock, page):
    """By the counts since the read a minute ago; each Pod has the value of all together."""
    both = [await pods.add(name, page(histogram(0, 0, 0))) for name in "ab"]
    names = ["wait_seconds", "wait_seconds:p50"]
    assert all(not each for each in await metrics.read(both, pods.port, "/m", names, 10))
    clock.now += 60
    two = histogram(0, 1, 1, labels='model="x",') + histogram(0, 4, 4, labels='model="y",', head="")
    pods.behaviors["a"] = page(two)
    pods.behaviors["b"] = page(histogram(0, 0, 5))
    measured = await metrics.read(both, pods.port, "/m", names, 10)
    # Ten values: half of them up to 0.75, half in the bucket that is taken to end at 1.5.
    assert measured == [{"wait_seconds": pytest.approx(1.5), "wait_seconds:p50": pytest.approx(0.75)}] * 2
    clock.now += 60
    measured = await metrics.read(both, pods.port, "/m", names, 10)
    assert measured[0]["wait_seconds"] == 0, "nobody waited in the last minute"


async def test_a_restart_hides_a_pod_for_one_read(pods, metrics, clock, page):
    """Totals that begin again are never taken for a whole life's, nor do they freeze anything."""
    pod = await pods.add("a", page(""))
    names, found = ["tokens_total", "wait_seconds"], []
    for tokens, counts in ((100, (9, 9, 9)), (200, (9, 9, 20)), (50, (0, 1, 1)), (80, (5, 6, 6))):
        pods.behaviors["a"] = page(f"tokens_total {tokens}\n{histogram(*counts)}")
        (values,) = await metrics.read([pod], pods.port, "/metrics", names, 10)
        found.append(values)
        clock.now += 10
    assert found[0] == found[2] == {}
    assert found[1]["tokens_total"] == 10
    assert found[3]["tokens_total"] == 3
    assert found[3]["wait_seconds"] <= 0.5


async def test_pods_that_are_not_ready_are_not_read(pods, metrics, page):
    ready = await pods.add("a", page("waiting 1\n"))
    other = await pods.add("b", page("waiting 1\n"), ready=False)
    measured = await metrics.read([ready, other], pods.port, "/metrics", ["waiting"], 10)
    assert measured == [{"waiting": 1}, {}]
    assert pods.asked == ["a /metrics"]


async def test_summaries_have_no_value(pods, metrics, page):
    pod = await pods.add("a", page('# TYPE t summary\nt{quantile="0.5"} 1\nt_sum 1\nt_count 1\n'))
    (values,) = await metrics.read([pod], pods.port, "/metrics", ["t"], 10)
    assert values == {}


@pytest.mark.parametrize("kind", ["vllm", "sglang", "trtllm"])
async def test_engines_are_read_by_unified_names_and_their_own(pods, metrics, clock, page, kind):
    """With the sidecar or without it."""
    sock = listen("127.77.77.1", 0)
    port = sock.getsockname()[1]
    pod = await pods.add("a", page(""))
    status = type(pod.status)(phase="Running", pod_ip="127.77.77.1", conditions=pod.status.conditions)
    pod = type(pod)(metadata=pod.metadata, status=status)
    own = {
        "vllm": ["vllm:kv_cache_usage_perc", "vllm:generation_tokens_total"],
        "sglang": ["sglang:token_usage", "sglang:generation_tokens_total"],
        "trtllm": ["trtllm_kv_cache_utilization"],
    }[kind]
    names = [WAITING, "kthena:generation_tokens_total", *own]
    settings = ServerSettings(
        engine=PROFILES["fast"].config, models=("base",), drain_s=0, api=kind, data_parallel_size=1
    )
    async with (
        running(settings, sock, None),
        httpx2.AsyncClient(base_url=f"http://127.77.77.1:{port}", timeout=30) as client,
    ):
        await metrics.read([pod], port, "/metrics", names, 30)
        clock.now += 10
        body = {"model": "base", "prompt": "some words", "max_tokens": 20, "ignore_eos": True}
        assert (await client.post("/v1/completions", json=body)).status_code == 200
        (values,) = await metrics.read([pod], port, "/metrics", names, 30)
    assert metrics.problem(pod, port, "/metrics") == ""
    assert values[WAITING] == 0
    assert values[own[0]] == 0
    if kind != "trtllm":
        assert values["kthena:generation_tokens_total"] == pytest.approx(2.0)
        assert values[own[1]] == pytest.approx(2.0)
