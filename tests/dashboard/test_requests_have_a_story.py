"""The pages of requests: what failed or was slow, and what happened to it from its arrival to its end."""

import re

from headgate.dataplane.records.kept_story import KeptPage


async def text_of(http, path):
    answer = await http.get(path)
    assert answer.status_code == 200, answer.text
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


async def test_a_story_tells_queue_pick_and_attempts(http, workers, kept):
    """In their order, each with its beginning and its length."""
    workers.has(7, kept=KeptPage([], [kept(3)], [], 0))
    told = await text_of(http, "/dashboard/request?worker=7&number=3")
    steps = (
        "Arrived after 0 s route default/m, rule all, pool default/m",
        "Queued after 1 ms, for 1.5 s flow team-a, priority 0",
        "Attempt 1 of 2 after 1.5 s, for 499 ms default/a at 10.0.0.1:8000: connect",
        "Attempt 2 of 2 after 2 s, for 2.25 s default/b at 10.0.0.2:8000: upstream_failed; expected 3072 of "
        "4100 prompt tokens in its cache, and the first token after 0.083 s",
        "Ended after 4.25 s status 502, upstream_failed, because of the endpoint: the endpoint closed",
    )
    places = [told.index(step) for step in steps]
    assert places == sorted(places)


async def test_the_newest_come_first_of_all_workers(http, workers, kept):
    """Each leads to its story, in the worker that keeps it."""
    workers.has(1, kept=KeptPage([], [kept(5), kept(2)], [], 0))
    workers.has(2, kept=KeptPage([], [kept(4)], [], 3))
    html = (await http.get("/dashboard/requests")).text
    links = re.findall(r"/dashboard/request\?worker=(\d+)&amp;number=(\d+)", html)
    assert links == [("1", "5"), ("2", "4"), ("1", "2")]
    assert "3 more requests failed" in html


async def test_slow_requests_tell_when_their_response_began(http, workers, kept):
    """Of a stream the first token counts, of others the end."""
    served = {"status": 200, "outcome": "served", "origin": None, "error": ""}
    stream = kept(1, first_byte_s=2.5, total_s=60.0, **served)
    plain = kept(2, stream=False, first_byte_s=7.0, total_s=7.5, **served)
    workers.has(1, kept=KeptPage([stream, plain], [], [], 0))
    told = await text_of(http, "/dashboard/requests")
    assert re.search(r"id-2 m 200 served 7\.5 s .* id-1 m 200 served 2\.5 s", told)


async def test_requests_in_flight_are_the_oldest(http, workers):
    """Those of all workers, in one order."""
    for worker, ages in ((1, (9.0, 3.0)), (2, (5.0,))):
        shown = [{"client": "c", "phase": "sent", "age_s": age, "model": f"m{age}"} for age in ages]
        workers.has(worker, running={"total": 20 + worker, "requests": shown})
    told = await text_of(http, "/dashboard/requests")
    assert "43 in all workers. These are the oldest." in told
    assert told.index("m9.0") < told.index("m5.0") < told.index("m3.0")


async def test_what_is_not_kept_any_more_says_so(http, workers):
    """A link that a colleague sent may be old."""
    for query in ("worker=1&number=99", "worker=x", ""):
        assert "not kept any more" in await text_of(http, f"/dashboard/request?{query}")
