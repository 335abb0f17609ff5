"""A Pod is asked on the same connection each time, as long as that works, and there are not too many."""

import asyncio

import msgspec

from headgate.controllers.autoscaling import pod_pages
from headgate.controllers.autoscaling.pod_metrics import PodMetrics


def counting(connections, page):
    """Answers, and takes down which connections there were."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer.get_extra_info("peername"))
        await page("waiting 1\n")(reader, writer)

    return behave


async def read(metrics, pods, *asked):
    return await metrics.read(asked, pods.port, "/metrics", ["waiting"], 30)


async def test_each_read_uses_the_same(pods, metrics, page):
    connections = set()
    pod = await pods.add("a", counting(connections, page))
    for _ in range(3):
        assert await read(metrics, pods, pod) == [{"waiting": 1}]
    assert len(connections) == 1
    assert metrics.statistics()["connections"] == 1
    metrics.close()
    assert metrics.statistics()["connections"] == 0


async def test_one_that_the_pod_has_closed_is_made_again(pods, metrics, raw):
    """Engines close connections that were idle for a few seconds."""
    pod = await pods.add("a", raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nwaiting 1\n"))
    for _ in range(3):
        assert await read(metrics, pods, pod) == [{"waiting": 1}]


async def test_a_pod_that_moves_is_asked_where_it_is(pods, metrics, page):
    first, second = await pods.add("a", page("waiting 1\n")), await pods.add("b", page("waiting 2\n"))
    assert await read(metrics, pods, first) == [{"waiting": 1}]
    moved = msgspec.structs.replace(
        first, status=msgspec.structs.replace(first.status, pod_ip=second.status.pod_ip)
    )
    assert await read(metrics, pods, moved) == [{"waiting": 2}]
    assert metrics.statistics()["connections"] == 1


async def test_only_some_of_the_files_that_may_be_open_are_used(pods, clock, page, monkeypatch):
    monkeypatch.setattr(pod_pages, "most_kept", lambda: 2)
    metrics = PodMetrics(clock)
    several = [await pods.add(f"p{number}", page("waiting 1\n")) for number in range(5)]
    for _ in range(2):
        assert await read(metrics, pods, *several) == [{"waiting": 1}] * 5
        assert metrics.statistics()["connections"] == 2
    metrics.close()


async def test_those_of_pods_that_are_gone_are_closed(pods, metrics, clock, page):
    first, second = await pods.add("a", page("waiting 1\n")), await pods.add("b", page("waiting 2\n"))
    await read(metrics, pods, first, second)
    for _ in range(12):
        clock.now += 30
        await read(metrics, pods, second)
    assert metrics.statistics()["connections"] == 1
