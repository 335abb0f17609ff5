"""A write of a large object is computed in a helper process, with the same result, while others go on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from headgate.apiserver import Config, Running
from headgate.apiserver.app import application
from headgate.apiserver.deletion import DeleteOptions
from headgate.apiserver.handlers import writing
from headgate.apiserver.handlers.large_writes import CPU_S, LargeWrites
from headgate.apiserver.handlers.writing import ATTEMPTS, Writer
from headgate.apiserver.parts import Parts
from headgate.apiserver.targets import Target, WriteOptions

Object = dict[str, Any]

API = "/api/v1/namespaces/default"
CONFIG_MAPS = f"{API}/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RULED = "/apis/test.example/v1/namespaces/default/ruleds"
WIDGETS = "/apis/test.example/v1/namespaces/default/widgets"
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
YAML = {"content-type": "application/yaml"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
FULL = {f"key{number:05}": "value" for number in range(2000)}
"""Data of an object that is large."""


def ruled(kind: str = "Ruled", rule: str = "size(self.text) < 9") -> Object:
    """The definition of a kind whose objects are judged by a rule in CEL."""
    spec = {"type": "object", "properties": {"text": {"type": "string"}}}
    spec["x-kubernetes-validations"] = [{"rule": rule}]
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.test.example"},
        "spec": {
            "group": "test.example",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


# -- the same results


async def story(client: httpx2.AsyncClient, widget: Callable[..., Object]) -> list[Any]:
    """Writes of all kinds, good and bad; what they answer, and what is there at the end."""
    told: list[Any] = []

    async def do(method: str, path: str, body: Any, **more: Any) -> None:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {"content-type": "application/json"} | more.pop("headers", {})
        answer = await client.request(method, path, content=content, headers=headers, **more)
        told.append((method, path, answer.status_code, answer.json(), answer.headers.get("warning")))

    a, pod = f"{CONFIG_MAPS}/a", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    pod["spec"]["containers"][0]["image"] = "i"
    await do("POST", CONFIG_MAPS, config_map("a", one="1"))
    await do("POST", CONFIG_MAPS, config_map("a"))
    await do("POST", CONFIG_MAPS, config_map("a-table"), headers=TABLE)
    await do("POST", CONFIG_MAPS, config_map("dry", one="1"), params={"dryRun": "All"})
    await do("POST", f"{API}x/configmaps", config_map("a"))
    await do("POST", CONFIG_MAPS, b'{"metadata": {"name": "b"}, "data": {"x": 1}, "no": 2}')
    await do("POST", CONFIG_MAPS, b"metadata: {name: y}\ndata: {when: 2024-01-01}\n", headers=YAML)
    await do("POST", CONFIG_MAPS, b"metadata: {name: y}\ndata: &a [*a]\n", headers=YAML)
    await do("POST", CONFIG_MAPS, b'{"metadata": {"name": "twice"}, "data": {"a": "1", "a": "2"}}')
    await do("POST", CONFIG_MAPS, b"{")
    await do("POST", CONFIG_MAPS, config_map("s") | {"no": 1}, params={"fieldValidation": "Strict"})
    await do("PUT", a, config_map("a", one="2"))
    await do("PUT", a, config_map("a", one="2"))
    await do("PUT", a, config_map("a") | {"metadata": {"name": "a", "resourceVersion": "1"}})
    await do("PUT", f"{CONFIG_MAPS}/none", config_map("none"))
    await do("PATCH", a, {"data": {"two": "2"}}, headers=MERGE)
    await do("PATCH", a, {"data": {"two": None, "three": "3"}}, headers=STRATEGIC)
    await do("PATCH", a, [{"op": "add", "path": "/data/four", "value": "4"}], headers=JSON_PATCH)
    await do("PATCH", a, [{"op": "test", "path": "/data/four", "value": "5"}], headers=JSON_PATCH)
    await do("PATCH", a, [{"op": "test", "path": "", "value": 1}] * 10_001, headers=JSON_PATCH)
    await do("PATCH", a, config_map("a", one="9"), headers=APPLY, params={"fieldManager": "m"})
    await do(
        "PATCH", a, config_map("a", one="9"), headers=APPLY, params={"fieldManager": "m", "force": "true"}
    )
    await do(
        "PATCH", f"{CONFIG_MAPS}/n", config_map("n", one="9"), headers=APPLY, params={"fieldManager": "m"}
    )
    await do("PATCH", a, {"metadata": {"finalizers": ["x.y/z"]}}, headers=MERGE)
    await do("DELETE", a, b"")
    await do("PATCH", a, {"metadata": {"finalizers": None}}, headers=MERGE)
    await do("POST", "/api/v1/namespaces", {"metadata": {"name": "new"}})
    await do("POST", f"{API}/services", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    taken = {"clusterIP": "10.96.1.0", "ports": [{"port": 80}]}
    await do("POST", f"{API}/services", {"metadata": {"name": "t"}, "spec": taken})
    await do("POST", f"{API}/pods", pod)
    await do("POST", f"{API}/pods/p/binding", {"target": {"name": "node"}})
    await do("POST", f"{API}/pods/p/binding", {"target": {"name": "node"}})
    await do("PATCH", f"{API}/pods/p/status", {"status": {"phase": "Running"}}, headers=MERGE)
    await do("POST", WIDGETS, widget("w", parts=[{"name": "a", "length": 1}], no=1))
    await do("POST", WIDGETS, widget("bad", color="green", size=-1))
    await do("PATCH", f"{WIDGETS}/w/scale", {"spec": {"replicas": 3}}, headers=MERGE)
    await do("PATCH", f"{WIDGETS}/w/status", {"status": {"size": 3}, "spec": {"size": 9}}, headers=MERGE)
    await do("POST", DEFINITIONS, ruled())
    await do("POST", DEFINITIONS, ruled(rule="size(self.no) < 9", kind="Broken"))
    await do("POST", DEFINITIONS, ruled(kind="Widget"))
    other = {"apiVersion": "test.example/v1", "kind": "Ruled", "metadata": {"name": "r"}}
    await do("POST", RULED, other | {"spec": {"text": "short"}})
    await do("POST", RULED, other | {"metadata": {"generateName": "made-"}, "spec": {"text": "far too long"}})
    await do("PATCH", f"{RULED}/r", {"spec": {"text": "shorter"}}, headers=MERGE)
    await do(
        "PATCH", f"{DEFINITIONS}/ruleds.test.example", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE
    )
    for path in (CONFIG_MAPS, f"{API}/services", f"{API}/pods", WIDGETS, RULED, DEFINITIONS):
        told.append((await client.get(path)).json())
    told.append((await client.get("/api/v1/namespaces/new/serviceaccounts")).json())
    return [masked(each) for each in told]


CHANGING = {"uid", "creationTimestamp", "time", "lastTransitionTime", "deletionTimestamp", "Age", "age"}


def masked(value: Any) -> Any:
    """Without what is another in each run: times, identities and the names that are made of `made-`."""
    if isinstance(value, dict):
        return {name: "..." if name in CHANGING else masked(inner) for name, inner in value.items()}
    if isinstance(value, str):
        return re.sub("made-[a-z0-9]{5}", "made-", value)
    return [masked(item) for item in value] if isinstance(value, list | tuple) else value


async def test_a_large_write_has_the_result_of_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, widget_definition: Object, widget: Callable[..., Object]
) -> None:
    """Whether the server itself or the helper computes it, each answer and each stored object is the same."""
    stories = []
    for place, bound in (("server", 1 << 40), ("helper", -1)):
        monkeypatch.setattr(writing, "LARGE_BYTES", bound)
        parts = Parts(Config(tmp_path / place, definitions=[widget_definition]))
        transport = httpx2.ASGITransport(application(parts, "t"))
        headers = {"authorization": "Bearer t", "user-agent": "test/1"}
        async with httpx2.AsyncClient(transport=transport, base_url="https://t", headers=headers) as client:
            stories.append(await story(client, widget))
        assert bool(parts.statistics()["large_writes"]["computed"]) is (place == "helper")
        parts.large_writes.close()
        parts.objects.judge.close()
        parts.store.close()
    for server, helper in zip(*stories, strict=True):
        assert helper == server


# -- nobody waits


def helpers() -> set[int]:
    """The processes that compute large writes for this one."""
    children = [c for task in Path("/proc/self/task").iterdir() for c in read(task / "children").split()]
    return {int(child) for child in children if "large_write_worker" in read(Path("/proc", child, "cmdline"))}


def read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # it has just ended
        return ""


@pytest.fixture
def stop_helper() -> Iterator[Callable[[], Callable[[], None]]]:
    """Stops the helper of this test; what is returned lets it go on."""
    others, stopped = helpers(), set()

    def stop() -> Callable[[], None]:
        (pid,) = helpers() - others
        os.kill(pid, signal.SIGSTOP)
        stopped.add(pid)

        def go_on() -> None:
            stopped.discard(pid)
            os.kill(pid, signal.SIGCONT)

        return go_on

    yield stop
    for pid in stopped:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@pytest.fixture
async def other(server: Running) -> AsyncIterator[httpx2.AsyncClient]:
    """Another client, with connections of its own."""
    context = ssl.create_default_context(cafile=server.identity.ca)
    headers = {"authorization": f"Bearer {server.identity.token}"}
    async with httpx2.AsyncClient(base_url=server.url, verify=context, headers=headers, timeout=30) as made:
        yield made


def large_writes(client: httpx2.AsyncClient) -> list[Awaitable[httpx2.Response]]:
    """One of each kind, by body or by the object that it changes; there is a large object `full`."""
    full, many = f"{CONFIG_MAPS}/full", msgspec.json.encode(config_map("new", **FULL))
    slow_yaml = b"metadata: {name: yaml}\ndata:\n" + b"".join(b"  k%d: x\n" % n for n in range(400))
    wide = {f"f{number}": {"type": "string", "pattern": f"^a{number}$"} for number in range(1000)}
    definition = ruled(kind="Wide")
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["wide"] = {
        "type": "object",
        "properties": wide,
    }
    operations = [{"op": "add", "path": "/data/a", "value": "1"}] * 2000
    return [
        client.post(CONFIG_MAPS, content=many, headers={"content-type": "application/json"}),
        client.post(CONFIG_MAPS, content=slow_yaml, headers=YAML),
        client.post(DEFINITIONS, json=definition),
        client.put(
            full, json=config_map("full", **FULL) | {"metadata": {"name": "full", "labels": {"a": "b"}}}
        ),
        client.patch(full, json={"data": {"a": "1"}}, headers=MERGE),
        client.patch(full, json={"data": {"b": "1"}}, headers=STRATEGIC),
        client.patch(full, json=operations, headers=JSON_PATCH),
        client.patch(f"{full}?fieldManager=m", json=config_map("full", c="1"), headers=APPLY),
    ]


async def test_others_are_served_while_large_writes_are_computed(
    remote: httpx2.AsyncClient, other: httpx2.AsyncClient, server: Running, stop_helper: Any
) -> None:
    """With the helper stopped, no large write is done on the event loop, and small ones and reads go on."""
    assert (await remote.post(CONFIG_MAPS, json=config_map("full", **FULL))).status_code == 201
    go_on = stop_helper()
    writes = [asyncio.ensure_future(write) for write in large_writes(remote)]
    shared = server.parts.shared
    async with asyncio.timeout(60):
        while shared.helper.statistics()["waiting"] + 1 < len(writes):
            assert (await other.get(f"{CONFIG_MAPS}/full")).status_code == 200
    assert (await other.post(CONFIG_MAPS, json=config_map("small"))).status_code == 201
    assert not any(write.done() for write in writes)
    go_on()
    assert {answer.status_code for answer in await asyncio.gather(*writes)} == {200, 201}
    kept = (await other.get(f"{CONFIG_MAPS}/full")).json()
    assert {"a", "b", "c"} <= kept["data"].keys()


async def test_a_kind_with_a_large_schema_is_compiled_by_the_helper_only(
    client: httpx2.AsyncClient, parts: Parts
) -> None:
    """A small object of a definition with thousands of patterns costs the event loop nothing either."""
    definition = ruled(kind="Wide", rule="true")
    wide = {f"f{number}": {"type": "string", "pattern": f"^a{number}b$"} for number in range(2000)}
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["wide"] = {"type": "object", "properties": wide}
    assert (await client.post(DEFINITIONS, json=definition)).status_code == 201
    obj = {"apiVersion": "test.example/v1", "kind": "Wide", "metadata": {"name": "w"}, "wide": {"f7": "a7b"}}
    assert (await client.post(f"{RULED.removesuffix('ruleds')}wides", json=obj)).status_code == 201
    served = parts.registry.find("test.example", "v1", "wides")
    assert served
    assert "prepared" not in vars(served)
    parts.large_writes.close()


@pytest.mark.parametrize("is_update", [False, True])
async def test_a_small_write_that_many_defaults_make_large_is_computed_by_the_helper(
    remote: httpx2.AsyncClient,
    other: httpx2.AsyncClient,
    server: Running,
    stop_helper: Any,
    is_update: bool,
) -> None:
    """A body of a few KB with an empty map in each of many items: others are served while it is filled in."""
    fields = {f"f{number}": {"type": "integer", "default": number} for number in range(34)}
    items = {"type": "array", "items": {"type": "object", "properties": fields}}
    definition = ruled(kind="Filled", rule="true")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {"type": "object", "properties": {"items": items}}
    assert (await remote.post(DEFINITIONS, json=definition)).status_code == 201
    filled = RULED.replace("ruleds", "filleds")
    obj = {"apiVersion": "test.example/v1", "kind": "Filled", "metadata": {"name": "f"}}
    assert (await remote.post(filled, json=obj)).status_code == 201
    assert (await remote.post(CONFIG_MAPS, json=config_map("full", **FULL))).status_code == 201
    go_on = stop_helper()
    spec = {"spec": {"items": [{}] * 1000}}
    if is_update:
        write = asyncio.ensure_future(remote.patch(f"{filled}/f", json=spec, headers=MERGE))
    else:
        write = asyncio.ensure_future(remote.post(filled, json=obj | spec | {"metadata": {"name": "g"}}))
    async with asyncio.timeout(60):
        while not server.parts.shared.helper.statistics()["held"]:
            assert (await other.get(f"{filled}/f")).status_code == 200
            assert not write.done()
    assert (await other.post(CONFIG_MAPS, json=config_map("small"))).status_code == 201
    go_on()
    answer = await write
    assert answer.status_code == (200 if is_update else 201)
    assert answer.json()["spec"]["items"] == [{f"f{number}": number for number in range(34)}] * 1000


async def test_a_small_patch_that_copies_much_is_computed_by_the_helper(
    remote: httpx2.AsyncClient, other: httpx2.AsyncClient, server: Running, stop_helper: Any
) -> None:
    """A few operations that double a list copy megabytes: others are served meanwhile."""
    assert (await remote.post(CONFIG_MAPS, json=config_map("full", **FULL))).status_code == 201
    assert (await remote.post(CONFIG_MAPS, json=config_map("small", a="1"))).status_code == 201
    go_on = stop_helper()
    double = {"op": "copy", "from": "/junk", "path": "/junk/-"}
    operations = [{"op": "add", "path": "/junk", "value": [[]] * 1000}, *[double] * 8]
    operations += [{"op": "remove", "path": "/junk"}, {"op": "add", "path": "/data/b", "value": "2"}]
    write = asyncio.ensure_future(remote.patch(f"{CONFIG_MAPS}/small", json=operations, headers=JSON_PATCH))
    async with asyncio.timeout(60):
        while not server.parts.shared.helper.statistics()["held"]:
            assert (await other.get(f"{CONFIG_MAPS}/small")).status_code == 200
            assert not write.done()
    go_on()
    answer = await write
    assert (answer.status_code, answer.json()["data"]) == (200, {"a": "1", "b": "2"})


async def test_a_large_write_that_waits_is_given_up_when_its_client_leaves(
    remote: httpx2.AsyncClient, other: httpx2.AsyncClient, server: Running, stop_helper: Any
) -> None:
    """It holds nothing from then on, and the helper never computes it; the other writes go on."""
    assert (await remote.post(CONFIG_MAPS, json=config_map("full", **FULL))).status_code == 201
    go_on = stop_helper()
    shared = server.parts.shared
    first = asyncio.ensure_future(remote.post(CONFIG_MAPS, json=config_map("first", **FULL)))
    async with asyncio.timeout(60):
        while not shared.helper.statistics()["held"]:
            await asyncio.sleep(0.01)
    left = [asyncio.ensure_future(other.post(CONFIG_MAPS, json=config_map(f"l{n}", **FULL))) for n in "abc"]
    second = asyncio.ensure_future(remote.post(CONFIG_MAPS, json=config_map("second", **FULL)))
    async with asyncio.timeout(60):
        while shared.helper.statistics()["waiting"] < 4:
            await asyncio.sleep(0.01)
        held = shared.bodies.statistics()["held"]
        for write in left:
            write.cancel()
        while shared.helper.statistics()["waiting"] > 1 or shared.bodies.statistics()["held"] > held * 0.5:
            await asyncio.sleep(0.01)
    go_on()
    assert [answer.status_code for answer in await asyncio.gather(first, second)] == [201, 201]
    computed = server.parts.large_writes.statistics()["computed"]
    assert computed == 3
    assert (await remote.get(f"{CONFIG_MAPS}/la")).status_code == 404


# -- what was read may change


@pytest.fixture
def meddle(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any], int], None]:
    """Has something done so many times between the computing and the storing of large writes."""

    def arrange(act: Callable[[], Any], times: int) -> None:
        store, left = LargeWrites.store, [times]

        def after_others(self: LargeWrites, computed: Any) -> bytes | None:
            if left[0]:
                left[0] -= 1
                act()
            return store(self, computed)

        monkeypatch.setattr(LargeWrites, "store", after_others)

    return arrange


def label(parts: Parts, name: str, number: list[int]) -> None:
    """Changes a ConfigMap in the server itself."""
    served = parts.registry.find("", "v1", "configmaps")
    assert served
    number[0] += 1
    patch = {"metadata": {"labels": {"n": str(number[0])}}}
    parts.objects.patch(Target(served, "default", name), "merge", patch, WriteOptions(), [])


async def test_a_large_write_is_computed_again_when_its_object_has_changed(
    client: httpx2.AsyncClient, parts: Parts, meddle: Any
) -> None:
    """Both changes are kept."""
    await client.post(CONFIG_MAPS, json=config_map("full", **FULL))
    meddle(lambda: label(parts, "full", [0]), 1)
    answer = await client.patch(f"{CONFIG_MAPS}/full", json={"data": {"a": "1"}}, headers=MERGE)
    assert answer.status_code == 200
    kept = (await client.get(f"{CONFIG_MAPS}/full")).json()
    assert (kept["metadata"]["labels"], kept["data"]["a"]) == ({"n": "1"}, "1")
    assert answer.json() == kept
    parts.large_writes.close()


async def test_a_large_write_of_an_object_that_changes_all_the_time_conflicts(
    client: httpx2.AsyncClient, parts: Parts, meddle: Any
) -> None:
    """409 after as many times as Kubernetes tries."""
    await client.post(CONFIG_MAPS, json=config_map("full", **FULL))
    changes = [0]
    meddle(lambda: label(parts, "full", changes), 100)
    answer = await client.patch(f"{CONFIG_MAPS}/full", json={"data": {"a": "1"}}, headers=MERGE)
    assert (answer.status_code, answer.json()["reason"], changes) == (409, "Conflict", [ATTEMPTS])
    parts.large_writes.close()


async def test_a_name_that_was_taken_meanwhile_is_taken(
    client: httpx2.AsyncClient, parts: Parts, meddle: Any
) -> None:
    """A large create does not replace what somebody else has created."""
    served = parts.registry.find("", "v1", "configmaps")
    assert served
    target = Target(served, "default", "")
    meddle(lambda: parts.objects.create(target, config_map("full", mine="1"), WriteOptions(), []), 1)
    answer = await client.post(CONFIG_MAPS, json=config_map("full", **FULL))
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")
    assert (await client.get(f"{CONFIG_MAPS}/full")).json()["data"] == {"mine": "1"}
    parts.large_writes.close()


async def test_a_definition_that_became_stricter_meanwhile_counts(
    client: httpx2.AsyncClient, parts: Parts, widget: Any, meddle: Any
) -> None:
    """A large object is judged by the schema of the moment at which it is stored."""
    served = parts.registry.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
    assert served
    target = Target(served, "", "widgets.test.example")

    def limit_tags() -> None:
        definition = parts.objects.get(target)
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["tags"]["maxItems"] = 2
        with parts.objects.judge.knowing(Anything()):
            parts.objects.update(target, definition, WriteOptions(), [])

    meddle(limit_tags, 1)
    answer = await client.post(WIDGETS, json=widget("w", tags=["x" * 10_000] * 3))
    assert answer.status_code == 422
    assert "spec.tags: Too many: 3: must have at most 2 items" in answer.json()["message"]
    parts.large_writes.close()


class Anything(dict[bytes, list[Any]]):
    """Answers of a judge who finds nothing wrong."""

    def get(self, key: bytes, default: Any = None) -> Any:
        return []


async def test_an_object_is_not_created_in_a_namespace_that_has_begun_to_go(
    client: httpx2.AsyncClient, parts: Parts, meddle: Any
) -> None:
    """Whoever empties the namespace would not find it."""
    await client.post("/api/v1/namespaces", json={"metadata": {"name": "going"}})
    served = parts.registry.find("", "v1", "namespaces")
    assert served
    meddle(lambda: parts.objects.delete(Target(served, "", "going"), DeleteOptions()), 1)
    answer = await client.post(CONFIG_MAPS.replace("default", "going"), json=config_map("full", **FULL))
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    parts.large_writes.close()


# -- what it may cost


def bounded(parts: Parts, **limits: Any) -> None:
    """Gives the server a helper with other limits."""
    large = LargeWrites(parts.objects, rejected=parts.shared.rejected, **limits)
    object.__setattr__(parts.rest, "writer", Writer(parts.objects, large))
    parts.large_writes = large


async def test_a_write_that_takes_too_much_time_is_refused(client: httpx2.AsyncClient, parts: Parts) -> None:
    """413 that names the bound; a new helper computes the next write."""
    bounded(parts, cpu_s=0.05)
    text = b"metadata: {name: y}\ndata: [" + b"{}," * 80_000 + b"]\n"
    answer = await client.post(CONFIG_MAPS, content=text, headers=YAML)
    assert answer.status_code == 413
    told = "Request entity too large: this write took more than 0.05 s of CPU time; send a smaller object"
    assert answer.json()["message"] == told
    page = (await client.get("/metrics")).text
    assert 'headgate_apiserver_rejected_total{reason="large_writes"} 1' in page
    parts.large_writes._cpu_s = CPU_S
    assert (await client.post(CONFIG_MAPS, json=config_map("full", **FULL))).status_code == 201
    parts.large_writes.close()


async def test_a_write_that_takes_too_much_memory_is_refused(
    client: httpx2.AsyncClient, parts: Parts
) -> None:
    """413 that names the bound."""
    bounded(parts, memory_bytes=64 << 20)
    answer = await client.post(CONFIG_MAPS, json=config_map("full", **FULL))
    assert answer.status_code == 413
    assert "took more than 64 MB of memory" in answer.json()["message"]
    parts.large_writes.close()


async def test_the_helper_ends_with_the_server(client: httpx2.AsyncClient, parts: Parts) -> None:
    """Its process is gone, and later writes are refused."""
    before = helpers()
    await client.post(CONFIG_MAPS, json=config_map("full", **FULL))
    assert len(helpers() - before) == 1
    parts.large_writes.close()
    assert not helpers() - before
    assert (await client.post(CONFIG_MAPS, json=config_map("other", **FULL))).status_code == 503


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"),
        ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"),
        ("POST", f"{API}/pods/p/eviction"),
        ("POST", f"{API}/pods/p/binding"),
        ("DELETE", f"{CONFIG_MAPS}/x"),
        ("DELETE", CONFIG_MAPS),
    ],
)
async def test_questions_are_small(client: httpx2.AsyncClient, method: str, path: str) -> None:
    """What is no object of a kind that is stored may have 64 KB, whether or not its length is declared."""

    async def undeclared() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b" " * 8000

    for content in (b"[" * 65_537, undeclared()):
        answer = await client.request(
            method, path, content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 413
        assert answer.json()["message"] == "Request entity too large: limit is 65536 bytes"
