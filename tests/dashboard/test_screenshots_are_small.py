"""The screenshots of the documentation, from figures that tests make: HEADGATE_TEST_SCREENSHOTS=docs/images
writes them."""

import os

import pytest

from headgate.dataplane.records.kept_story import KeptPage

pytestmark = pytest.mark.asyncio(loop_scope="module")
MAX_BYTES = 150_000
WHY = "gets no requests for another 21 s, after 5 failures in a row, the last: connect (4), reset (1)"


@pytest.fixture
def scene(workers, endpoint, pool, kept, told):
    """Two pools, of which one has an engine that fails."""
    rows = [
        endpoint(
            f"default/chat-{number}",
            pool="default/chat",
            address=f"10.0.3.{number}:8000",
            requests=9 + number,
            queue_s=0.2 * number,
            running=8 + number,
            waiting=number // 2,
            kv_usage=0.55 + number / 20,
            prefix_blocks=41_000 + 977 * number,
            started=18_230 + 311 * number,
        )
        for number in range(1, 6)
    ]
    failing = {
        "state": "ejected",
        "why": WHY,
        "requests": 0,
        "queue_s": 0.0,
        "failures": 38,
        "started": 17_201,
    }
    missing = {"kv_usage": None, "running": None, "waiting": None, "reading": "stale"}
    rows.append(
        endpoint(
            "default/chat-6",
            pool="default/chat",
            address="10.0.3.6:8000",
            problem="cannot be connected to",
            prefix_blocks=39_210,
            **failing,
            **missing,
        )
    )
    chat = pool(
        "chat",
        endpoints=6,
        requests_running=61,
        requests_waiting=14,
        arrivals=11.4,
        prompt_tokens=46_700.0,
        cached_tokens=31_300.0,
        output_tokens=2_940.0,
        kv_usage=0.71,
        timed_requests=100,
        ttft_sum_s=38.0,
        timed_tokens=10_000,
        tokens_sum_s=213.0,
        slo_requests=100,
        slo_misses=3,
    )
    embed = pool("embed", endpoints=2, requests_running=3, arrivals=4.2, prompt_tokens=1_900.0)
    full = "the pool has no capacity: requests wait in 5 of 5 engines"
    workers.has(
        0,
        *rows,
        pools=(chat, embed),
        kept=KeptPage([], [kept(1)], [], 0),
        flow=told.queue(("batch", 11), ("team-a", 3), why=full, pool="default/chat"),
        limits={"tenant/team-b/minute": told.limit(available=31.0, refused=18)},
    )


@pytest.mark.parametrize(
    ("name", "path", "scheme"),
    [
        ("dashboard-fleet", "/dashboard", "light"),
        ("dashboard-request", "/dashboard/request?worker=0&number=1", "dark"),
    ],
)
async def test_a_screenshot_is_small(look, scene, name, path, scheme):
    """Everybody who clones the repository gets it."""
    page = await look(path, color_scheme=scheme, viewport={"width": 1200, "height": 720})
    folder = os.environ.get("HEADGATE_TEST_SCREENSHOTS")
    taken = await page.screenshot(path=f"{folder}/{name}.png" if folder else None)
    assert len(taken) < MAX_BYTES
