"""The first page says why requests are slow or fail, so that nobody on call has to search."""

import re

import pytest

from headgate.dashboard import traffic
from headgate.telemetry.sums import Family, Sample


async def attention(http):
    """The lines below "Needs attention", without tags."""
    html = (await http.get("/dashboard")).text
    found = re.search(r'id="attention".*?</section>', html, re.DOTALL)
    assert (found is None) == ("Nothing needs attention." in html)
    lines = re.findall(r"<li>(.*?)</li>", found[0]) if found is not None else []
    return [" ".join(re.sub(r"<[^>]+>", "", line).split()) for line in lines]


async def test_a_healthy_fleet_needs_none(http, workers, endpoint, pool):
    """And the page says so."""
    workers.has(0, endpoint("a", waiting=0), pools=(pool(endpoints=1),))
    assert await attention(http) == []


async def test_engines_that_get_no_requests_are_told_first(http, workers, endpoint, pool):
    """With their reasons: a pool without endpoints, URLs without an engine, and ejected endpoints."""
    out = endpoint("default/b", state="ejected", why="gets no requests for another 4 s", waiting=0)
    workers.has(
        0,
        endpoint("default/a", waiting=0),
        out,
        pools=(pool(endpoints=2), pool("n", waiting_for_endpoints=3)),
    )
    workers.named = [
        {"name": name, "url": "http://gpu", "problem": "cannot be connected to", "servers": []}
        for name in ("x", "y")
    ]
    assert await attention(http) == [
        "default/n has no endpoint: 3 requests for it are held",
        "2 engines are not served: x: cannot be connected to; and 1 more",
        "1 of 2 endpoints of default/m get no requests: default/b gets no requests for another 4 s",
    ]


async def test_queues_are_told_with_who_fills_them(http, workers, endpoint, pool):
    """And with why the first request waits."""
    workers.has(
        0,
        endpoint("default/a", waiting=4, kv_usage=0.95),
        pools=(pool(endpoints=1, requests_waiting=30),),
        flow={
            "default/m": [
                {
                    "is_on": True,
                    "in_flight": 4,
                    "why": "5 wait before it",
                    "queue": {
                        "requests": 30,
                        "bytes": 1,
                        "saturation": 0.9,
                        "bands": [
                            {
                                "priority": -1,
                                "flows": [
                                    {
                                        "name": "batch",
                                        "requests": 30,
                                        "weight": 1.0,
                                        "oldest_s": 59.4,
                                        "standing": "",
                                    }
                                ],
                                "first": [{"flow": "batch", "why": "the engines are full"}],
                            }
                        ],
                    },
                }
            ]
        },
    )
    assert await attention(http) == [
        "30 requests are queued for default/m: the oldest for 59 s; 30 of batch; the engines are full",
        "1 of 1 engines of default/m are full: 4 requests are queued in them",
        "The KV cache of 1 of 1 engines of default/m is more than 90% full: "
        "they run fewer requests at a time",
    ]
    queues = " ".join(re.sub(r"<[^>]+>", " ", (await http.get("/dashboard/queues")).text).split())
    assert queues.count("the engines are full") == 2, "for the pool, and for the flow"


async def test_limits_and_objects_without_effect_are_told(http, workers, told):
    """As reasons of 429 and of requests that go elsewhere than somebody expects."""
    workers.has(
        0,
        limits={"tenant/team-a/minute": told.limit(available=20.0, refused=7), "default/m": told.limit()},
        routes=told.routes_page(denied=["the gateway may not read Secrets"]),
    )
    html = (await http.get("/dashboard")).text
    assert "The limit of tenant/team-a/minute is used up" in html
    assert "20 of 1,000 input tokens a minute are left; 7 rejected" in html
    assert "The limit of default/m" not in html
    assert "1 part of objects is not in use" in html


@pytest.mark.parametrize(
    ("code", "outcome", "line"),
    [
        ("200", "served", None),
        ("503", "no_ready_endpoint", "50% of the requests for m fail: status 5xx, in the last minute"),
        (
            "429",
            "queue_timeout",
            "50% of the requests for m get 429: their pool had no capacity in the last minute",
        ),
        ("429", "rate_limit_exceeded", None),
    ],
)
async def test_failures_of_the_last_minute_are_told(http, workers, monkeypatch, code, outcome, line):
    """Those of clients are not: they are on the page of requests."""
    monkeypatch.setattr(traffic, "STEP_S", 0.0)
    labels = ("model", "route", "pool", "code", "outcome")

    def count(value):
        keys = (("200", "served"), (code, outcome))
        samples = [Sample(("m", "default/m", "default/m", *key), value) for key in dict.fromkeys(keys)]
        workers.counted = [Family("headgate_gateway_requests", "counter", "", labels, samples=samples)]

    count(0.0)
    assert await attention(http) == []
    count(10.0)
    assert await attention(http) == ([line] if line else [])
