import re

import pytest

from headgate.simulator.server.metrics.fake import value_at

TOLD = ("stop", "length")


async def figures(server):
    """Running, waiting, KV usage and the lists of adapters, as /metrics shows them."""
    page = (await server.client.get("/metrics")).text
    names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    values = [float(re.search(rf"^vllm:{name}{{.*}} (\S+)$", page, re.MULTILINE)[1]) for name in names]
    lists = re.search(r'running_lora_adapters="(.*?)",waiting_lora_adapters="(.*?)"', page)
    return [*values, *lists.groups()]


async def fake(server, metrics):
    return await server.client.post("/admin/config", json={"fake_metrics": metrics})


async def test_the_page_shows_what_it_is_told(serve):
    """In place of the engine's figures; what is left out stays true, and null ends it."""
    async with serve() as server:
        told = {"waiting": 7, "kv_usage": 0.25, "running_adapters": ["a", "b"]}
        assert (await fake(server, told)).status_code == 200
        assert await figures(server) == [0, 7, 0.25, "a,b", ""]
        await fake(server, {"running": "squarewave:3:3:60"})
        assert await figures(server) == [3, 0, 0, "", ""]
        await fake(server, None)
        assert await figures(server) == [0, 0, 0, "", ""]


async def test_counts_and_histograms_can_be_made_up(serve):
    """Buckets are cumulative on the page, and their values lie in the middle; what is not told stays true."""
    async with serve() as server:
        body = {"model": "tiny", "prompt": "How deep?", "max_tokens": 3}
        await server.client.post("/v1/completions", json=body)
        told = {
            "counters": {"prompt_tokens": 100, "stop": 7},
            "histograms": {"time_to_first_token_seconds": [0, 4, 6], "request_queue_time_seconds": []},
        }
        assert (await fake(server, told)).status_code == 200
        page = (await server.client.get("/metrics")).text

        def value(name, labels=""):
            return float(re.search(rf"^vllm:{name}{{{labels}.*}} (\S+)$", page, re.MULTILINE)[1])

        assert (value("prompt_tokens_total"), value("generation_tokens_total")) == (100, 3)
        reasons = {end: value("request_success_total", f'engine="0",finished_reason="{end}"') for end in TOLD}
        assert reasons == {"stop": 7, "length": 1}
        buckets = [
            value("time_to_first_token_seconds_bucket", f'engine="0",le="{bound}"')
            for bound in ("0.001", "0.005", "0.01", "0.02", r"\+Inf")
        ]
        assert buckets == [0, 4, 10, 10, 10]
        assert value("time_to_first_token_seconds_sum") == pytest.approx(4 * 0.003 + 6 * 0.0075)
        assert value("request_queue_time_seconds_count") == 0
        assert value("e2e_request_latency_seconds_count") == 1
        await fake(server, None)
        page = (await server.client.get("/metrics")).text
        assert value("prompt_tokens_total") == 3


async def test_the_former_path_sets_them_too(serve):
    """POST /fake_metrics, with the figures alone."""
    async with serve() as server:
        assert (await server.client.post("/fake_metrics", json={"waiting": 7})).status_code == 200
        assert (await figures(server))[1] == 7
        assert (await server.client.post("/fake_metrics", json={"speed": 7})).status_code == 400
        assert (await server.client.post("/fake_metrics", content=b"null")).status_code == 200
        assert (await figures(server))[1] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"running": -1},
        {"running": "sine:1:2:3"},
        {"waiting": "ramp:1:2"},
        {"speed": 1},
        {"kv_usage": "x"},
        {"counters": {"tokens": 1}},
        {"histograms": {"time_to_first_token_seconds": [-1]}},
        {"histograms": {"ttft": [1]}},
    ],
)
async def test_wrong_figures_are_refused(serve, wrong):
    """A 400, and the page stays as it was."""
    async with serve() as server:
        assert (await fake(server, wrong)).status_code == 400
        assert await figures(server) == [0, 0, 0, "", ""]


@pytest.mark.parametrize(
    ("figure", "values"),
    [
        (5, [5, 5, 5, 5, 5]),
        ("oscillate:10:20:8", [15, 20, 15, 10, 15]),
        ("ramp:10:20:4", [10, 15, 20, 20, 20]),
        ("rampreset:10:20:4", [10, 15, 10, 15, 10]),
        ("squarewave:1:2:8", [1, 1, 2, 2, 1]),
        ("ramp:1:2:0", [2, 2, 2, 2, 2]),
    ],
)
def test_functions_of_time(figure, values):
    """At 0, 2, 4, 6 and 8 seconds."""
    assert [value_at(figure, at) for at in (0, 2, 4, 6, 8)] == pytest.approx(values)


async def test_figures_can_have_the_names_of_llm_d_inference_sim(serve):
    """In its forms; a change leaves those that it does not name."""
    figures = {
        "running-requests": 3,
        "kv-cache-usage": 0.5,
        "loras": [
            {"running": "old", "waiting": "", "timestamp": 1},
            {"running": "a,b", "waiting": "c", "timestamp": 2},
        ],
        "ttft-buckets-values": [0, 2, 1],
        "request-success-total": {"stop": 4},
        "total-prompt-tokens": 70,
        "prefix-cache-hits": 30,
    }
    async with serve() as server:
        change = {"fake-metrics": figures}
        assert (await server.client.post("/admin/config", json=change)).status_code == 200
        more = {"waiting-requests": "squarewave:8:8:5s", "prefix-cache-queries": 90}
        assert (await server.client.post("/fake_metrics", json=more)).status_code == 200
        page = (await server.client.get("/metrics")).text
        wrong = await server.client.post("/admin/config", json={"fake-metrics": {"speed-limit": 3}})
    one = 'engine="0",model_name="tiny"'
    for line in (
        f"vllm:num_requests_running{{{one}}} 3.0",
        f"vllm:num_requests_waiting{{{one}}} 8.0",
        f"vllm:kv_cache_usage_perc{{{one}}} 0.5",
        f"vllm:time_to_first_token_seconds_count{{{one}}} 3.0",
        f"vllm:prompt_tokens_total{{{one}}} 70.0",
        f"vllm:prefix_cache_hits_total{{{one}}} 30.0",
        f"vllm:prefix_cache_queries_total{{{one}}} 90.0",
    ):
        assert line in page
    assert 'running_lora_adapters="a,b",waiting_lora_adapters="c"' in page
    assert 'finished_reason="stop"' in page
    assert wrong.status_code == 400
