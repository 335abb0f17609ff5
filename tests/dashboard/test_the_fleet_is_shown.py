"""The page of endpoints: their load, cache and health in all workers, in parts that people can read."""

import re

import pytest

from headgate.dashboard import fleet, sources


async def page(http, query=""):
    answer = await http.get(f"/dashboard{query}")
    assert answer.status_code == 200, answer.text
    return answer.text


def text_of(html):
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def rows_of(html):
    """The names in the table of endpoints."""
    return re.findall(r'<span class="name">([^<]*)</span>', html)


async def test_an_endpoint_has_its_load_cache_and_health(http, workers, endpoint):
    """What an operator asks of an engine first."""
    why = "gets no requests for another 4 s, after 5 failures in a row, the last: connect (5)"
    workers.has(0, endpoint("default/a", state="ejected", why=why, requests=7, kv_usage=0.91, failures=5))
    told = text_of(await page(http))
    for each in ("default/a", "10.0.0.1:8000 vLLM", "ejected", why, "91%", "250 ms"):
        assert each in told
    assert "1 get no requests" in told


async def test_figures_of_workers_add_up(http, workers, endpoint, pool):
    """Requests are sums, the queue is the longest, and the state is the worst, with the number of workers
    that know it; what the engine itself tells is not added."""
    workers.has(0, endpoint("a", requests=3, queue_s=0.5), pools=(pool(requests_running=3, endpoints=1),))
    out = endpoint("a", requests=4, queue_s=0.75, state="resting", why="asked for no requests")
    workers.has(1, out, pools=(pool(requests_running=4, endpoints=1),))
    told = text_of(await page(http))
    assert "resting in 1 of 2 workers" in told
    assert re.search(r"resting in 1 of 2 workers asked for no requests 7 750 ms 3 2 50%", told)
    assert "7 requests running" in told
    assert "Summed over 2 workers" in told


async def test_what_needs_attention_comes_first(http, workers, endpoint):
    """Among 500, nobody finds the one that is out otherwise."""
    rows = [endpoint(f"e{number:03}") for number in range(500)]
    rows[321] = endpoint("e321", state="ejected", why="it fails")
    workers.has(0, *rows)
    html = await page(http)
    assert rows_of(html)[0] == "e321"
    assert len(rows_of(html)) == fleet.PAGE_ROWS
    assert "1 to 50 of 500" in text_of(html)


async def test_all_pages_together_have_every_endpoint_once(http, workers, endpoint):
    """A page after the last one is the last one."""
    workers.has(0, *(endpoint(f"e{number:03}") for number in range(130)))
    found = [name for number in (1, 2, 3) for name in rows_of(await page(http, f"?page={number}&sort=name"))]
    assert found == [f"e{number:03}" for number in range(130)]
    assert rows_of(await page(http, "?page=99&sort=name")) == found[100:]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?pool=default/n", ["c"]),
        ("?state=unhealthy", ["b"]),
        ("?state=healthy&sort=name", ["a", "c"]),
        ("?q=10.9", ["c"]),
        ("?q=VLLM+B", ["b"]),
        ("?q=nothing", []),
        ("?sort=requests", ["c", "a", "b"]),
        ("?sort=cache", ["b", "a", "c"]),
        ("?sort=queue", ["a", "b", "c"]),
        ("?sort=failures", ["b", "a", "c"]),
        ("?sort=bogus&page=x", ["b", "a", "c"]),
    ],
)
async def test_endpoints_are_searched_and_sorted(http, workers, endpoint, query, found):
    """By what is in the address of the page, so that it can be sent to a colleague."""
    workers.has(
        0,
        endpoint("a", requests=2),
        endpoint("b", state="avoided", failures=1, kv_usage=0.7, requests=1),
        endpoint("c", pool="default/n", address="10.9.0.1:8000", requests=5, kv_usage=None),
    )
    assert rows_of(await page(http, query)) == found


async def test_missing_figures_are_no_zeros(http, workers, endpoint):
    """An engine whose metrics are not read has no load of 0; the page says why."""
    workers.has(
        0,
        endpoint(
            "a", running=None, waiting=None, kv_usage=None, reading="missing", problem="404 for /metrics"
        ),
    )
    told = text_of(await page(http))
    assert "metrics missing: 404 for /metrics" in told
    assert "250 ms - - -" in told


async def test_silent_workers_are_named(http, workers, endpoint):
    """Their part is missing in all sums."""
    workers.silent.append("worker 1 did not respond within 2 s")
    workers.has(0, endpoint("a"))
    assert "worker 1 did not respond within 2 s" in await page(http)


async def test_workers_of_another_version_are_named(http, workers, endpoint):
    """During an upgrade, workers of both versions serve."""
    workers.has(0, endpoint("a"))
    workers.has(1)
    workers.pages[1]["/debug/fleet"] = b'{"endpoints": 7}'
    html = await page(http)
    assert rows_of(html) == ["a"]
    assert "runs another version" in html


async def test_engines_that_are_not_served_are_told(http, workers):
    """They are not among the endpoints, which is what somebody looks for who named them."""
    server = {"name": "b-2", "address": "10.0.0.9:80", "problem": "it lists no models"}
    workers.named = [
        {"name": "a", "url": "http://gpu-1", "problem": "it cannot be connected to", "servers": []},
        {"name": "b", "url": "http://gpu-2", "problem": "", "servers": [server]},
    ]
    told = text_of(await page(http))
    assert "a http://gpu-1: it cannot be connected to" in told
    assert "b-2 10.0.0.9:80: it lists no models" in told


async def test_many_viewers_cost_as_much_as_one(http, workers, endpoint, monkeypatch):
    """All who ask within a second see the same answers of the workers."""
    monkeypatch.setattr(sources, "SHARED_S", 3600.0)
    workers.has(0, endpoint("a"))
    for _ in range(20):
        await page(http)
    pages = ["/debug/fleet", "/signals", "/debug/routes", "/debug/limits", "/debug/flow"]
    assert workers.asked == pages


async def test_scripts_get_only_what_changes(http, workers, endpoint):
    """A tick replaces the live part, and leaves what somebody types alone."""
    workers.has(0, endpoint("a"))
    answer = await http.get("/dashboard?sort=name", headers={"hx-request": "true"})
    assert answer.text.strip().startswith('<div id="live" hx-get="/dashboard?sort=name"')
    assert "<form" not in answer.text


async def test_pools_are_the_busiest(http, workers, pool):
    """A gateway may have hundreds; a pool that was chosen is shown in any case."""
    found = [pool(f"p{number:03}", requests_running=number) for number in range(100)]
    workers.has(0, pools=(*found, pool("waits", requests_waiting=1)))
    html = await page(http)
    names = re.findall(r'<th scope="row"><a href="[^"]*">([^<]*)</a>', html)
    assert names[:2] == ["default/waits", "default/p099"]
    assert len(names) == fleet.POOL_ROWS
    assert "The 20 busiest of 101" in text_of(html)
    html = await page(http, "?pool=default/p000")
    assert re.findall(r'<th scope="row"><a href="[^"]*">([^<]*)</a>', html) == ["default/p000"]
