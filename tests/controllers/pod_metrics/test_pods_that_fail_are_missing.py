"""Whatever a Pod does instead of sending a valid page, it has no value then, and no other Pod is affected."""

import asyncio

import pytest

from headgate.controllers.autoscaling import pod_pages

NAMES = ["waiting"]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"
FAILURES = {
    "error": (b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", "answers 500"),
    "elsewhere": (b"HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n", "answers 302"),
    "cut": (HEAD % 100 + b"waiting 1\n", "closed the connection"),
    "huge": (HEAD % (1 << 30) + b"waiting 1\n" * 500_000, "too long"),
    "nonsense": (b"\x00\x01 no HTTP\r\n\r\n", "no valid HTTP"),
    "many lines": (HEAD % 51_000 + b'waiting{a="1"} 1\n' * 3000, "more than 2048 lines"),
    "nothing": (b"", "without an answer"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_failures_are_missing_and_told(pods, metrics, page, raw, failure):
    data, told = FAILURES[failure]
    bad, good = await pods.add("bad", raw(data)), await pods.add("good", page("waiting 2\n"))
    measured = await metrics.read([bad, good], pods.port, "/metrics", NAMES, 30)
    assert measured == [{}, {"waiting": 2}]
    assert told in metrics.problem(bad, pods.port, "/metrics")
    assert metrics.problem(good, pods.port, "/metrics") == ""
    pods.behaviors["bad"] = page("waiting 5\n")
    measured = await metrics.read([bad, good], pods.port, "/metrics", NAMES, 30)
    assert measured == [{"waiting": 5}, {"waiting": 2}]


@pytest.mark.parametrize(
    "text",
    [
        "waiting NaN\n",
        "waiting +Inf\n",
        'waiting 1\nwaiting{a="b"} what\n',
        "waiting\n",
        'waiting_bucket{le="1"} 1\n',
        'waiting_bucket{le="1"} 3\nwaiting_bucket{le="+Inf"} 2\n',
        'waiting_bucket{le="x"} 3\nwaiting_bucket{le="+Inf"} 4\n',
        'waiting_bucket{le="1",m="a"} 1\nwaiting_bucket{le="+Inf"} 4\nwaiting_bucket{le="+Inf",m="a"} 4\n',
        "",
    ],
)
async def test_values_that_are_none_are_missing(pods, metrics, clock, page, text):
    """In particular they are not 0."""
    pod = await pods.add("a", page(text))
    for _ in range(2):
        (values,) = await metrics.read([pod], pods.port, "/metrics", NAMES, 30)
        assert values == {}
        clock.now += 30


async def test_paths_that_cannot_be_asked_for_are_told(pods, metrics, page):
    """No header can be smuggled in through a binding."""
    pod = await pods.add("a", page("waiting 1\n"))
    for uri in ("metrics", "/a b", "/a HTTP/1.1\r\nx: y", ""):
        (values,) = await metrics.read([pod], pods.port, uri, NAMES, 30)
        assert values == {}
        assert "must begin with /" in metrics.problem(pod, pods.port, uri)
    assert pods.asked == []


@pytest.mark.parametrize("port", [0, -1, 65_536, 1 << 31])
async def test_ports_that_there_are_not_are_told(pods, metrics, page, port, caplog):
    """The schema of a binding does not bound them, and a typing error is none of the controller's own."""
    pod = await pods.add("a", page("waiting 1\n"))
    (values,) = await metrics.read([pod], port, "/metrics", NAMES, 30)
    assert values == {}
    assert "a number from 1 to 65535" in metrics.problem(pod, port, "/metrics")
    assert not caplog.records


async def test_slow_pods_delay_no_other_target(pods, metrics, page, silent, monkeypatch):
    """Those of another target are read at the same time, and those of their own before its deadline."""
    slow = [await pods.add(f"slow-{number}", silent) for number in range(40)]
    good = [await pods.add(f"good-{number}", page("waiting 2\n")) for number in range(4)]
    monkeypatch.setattr(pod_pages, "POD_S", 3600.0)
    stuck = asyncio.create_task(metrics.read([*slow, good[3]], pods.port, "/metrics", NAMES, 3600.0))
    async with asyncio.timeout(60):
        measured = await metrics.read(good[:3], pods.port, "/metrics", NAMES, 50)
    assert measured == [{"waiting": 2}] * 3
    assert not stuck.done()
    stuck.cancel()
    await asyncio.gather(stuck, return_exceptions=True)
    measured = await metrics.read([*slow, *good], pods.port, "/metrics", NAMES, 0.5)
    assert len(measured) == 44
    assert all(each == {} for each in measured[:40])
    assert "0.5 s" in metrics.problem(slow[0], pods.port, "/metrics")
    assert metrics.reads["failed"] >= 40


async def test_pods_that_are_gone_are_forgotten(pods, metrics, clock, page):
    first = await pods.add("first", page("waiting 2\n"))
    second = await pods.add("second", page("waiting 2\n"))
    await metrics.read([first, second], pods.port, "/metrics", NAMES, 30)
    assert metrics.statistics()["pods"] == 2
    for _ in range(12):
        clock.now += 30
        await metrics.read([second], pods.port, "/metrics", NAMES, 30)
    assert metrics.statistics()["pods"] == 1
