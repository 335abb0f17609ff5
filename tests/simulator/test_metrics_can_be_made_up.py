import re

import pytest

from headgate.simulator.server.metrics.fake import value_at


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


@pytest.mark.parametrize(
    "wrong",
    [{"running": -1}, {"running": "sine:1:2:3"}, {"waiting": "ramp:1:2"}, {"speed": 1}, {"kv_usage": "x"}],
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
