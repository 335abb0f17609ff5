"""A costly rule of one user's definition holds up nobody else, and what is stored is what was judged."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from headgate.apiserver import Running
from headgate.apiserver.calls import MAX_JUDGEMENTS
from headgate.apiserver.handlers.writing import ATTEMPTS

Object = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
COSTLIES = "/apis/test.example/v1/namespaces/default/costlies"
COSTLY = f"{COSTLIES}/a"
MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
SMALL = "(has(self.a) ? size(self.a) : 0) + (has(self.b) ? size(self.b) : 0) < 6"
LOOPS = "self.a.all(x, x.matches('(' + x + '{30}){30}|' + x))"


def definition(*rules: str, plural: str = "costlies") -> Object:
    """A kind with two lists in its spec, and these rules on it."""
    kind = plural.capitalize()
    texts = {"type": "array", "items": {"type": "string"}}
    spec = {"type": "object", "properties": {"a": texts, "b": texts}}
    spec["x-kubernetes-validations"] = [{"rule": rule} for rule in rules]
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
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


def costly(name: str = "a", **spec: list[str]) -> Object:
    return {
        "apiVersion": "test.example/v1",
        "kind": "Costlies",
        "metadata": {"name": name},
        "spec": {"a": [], "b": []} | spec,
    }


class Helper:
    """The process that judges, which a test stops and lets go on."""

    def __init__(self, others: frozenset[int]) -> None:
        """`others` are those of servers that ran before the test."""
        self._others = others
        self._stopped = 0

    def stop(self) -> None:
        (self._stopped,) = set(helpers()) - self._others
        os.kill(self._stopped, signal.SIGSTOP)

    def go_on(self) -> None:
        if self._stopped:
            with contextlib.suppress(ProcessLookupError):  # the server has ended it
                os.kill(self._stopped, signal.SIGCONT)
            self._stopped = 0


def helpers() -> list[int]:
    """The processes that judge for this one."""
    children = [
        child for task in Path("/proc/self/task").iterdir() for child in read(task / "children").split()
    ]
    return [
        int(child) for child in children if "headgate.judge_worker" in read(Path("/proc", child, "cmdline"))
    ]


def read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:  # it has just ended
        return ""


@pytest.fixture(autouse=True)
def others() -> frozenset[int]:
    """Processes of servers that another file has started."""
    return frozenset(helpers())


@pytest.fixture
def helper(others) -> Iterator[Helper]:
    made = Helper(others)
    yield made
    made.go_on()


@pytest.fixture
async def other(server: Running) -> AsyncIterator[httpx2.AsyncClient]:
    """Another client, with connections of its own."""
    context = ssl.create_default_context(cafile=server.identity.ca)
    headers = {"authorization": f"Bearer {server.identity.token}"}
    async with httpx2.AsyncClient(base_url=server.url, verify=context, headers=headers, timeout=30) as made:
        yield made


@pytest.fixture
def waiting(server: Running) -> Callable[[int], Awaitable[None]]:
    """Waits until so many writes wait to be judged."""

    async def until(count: int) -> None:
        async with asyncio.timeout(30):
            while server.parts.shared.judgements.statistics()["held"] != count:
                await asyncio.sleep(0.005)

    return until


async def ok(answer: Awaitable[httpx2.Response]) -> Any:
    """The object in an answer that is no refusal."""
    answered = await answer
    assert answered.status_code < 300, answered.text
    return answered.json()


async def answered_to_others(other: httpx2.AsyncClient, config_maps: str) -> None:
    """Asks what a bystander asks: reads, writes, and events of a watch."""
    assert (await other.get("/readyz")).text == "ok"
    since = (await ok(other.get(config_maps)))["metadata"]["resourceVersion"]
    watch = f"{config_maps}?watch=true&resourceVersion={since}"
    async with other.stream("GET", watch) as events:
        await ok(other.post(config_maps, json={"metadata": {"name": "bystander"}}))
        assert '"bystander"' in await anext(events.aiter_lines())
    await ok(other.delete(f"{config_maps}/bystander"))


async def test_an_object_that_is_cut_off_holds_up_nobody(remote, other, helper, waiting, config_maps):
    """Others read, write and watch before the judge has answered; then the write is refused."""
    await ok(remote.post(DEFINITIONS, json=definition(LOOPS)))
    helper.stop()
    slow = asyncio.create_task(remote.post(COSTLIES, json=costly(a=[f"w{place}" for place in range(40_000)])))
    await waiting(1)
    await answered_to_others(other, config_maps)
    assert not slow.done()
    helper.go_on()
    await answered_to_others(other, config_maps)
    refused = await slow
    assert refused.status_code == 422
    assert "took more than 1 s of CPU time" in refused.json()["message"]


async def test_a_definition_that_is_checked_holds_up_nobody(remote, other, helper, waiting, config_maps):
    """Its schema is checked beside other requests, and its kind is served afterwards."""
    await ok(remote.post(DEFINITIONS, json=definition(SMALL)))
    helper.stop()
    slow = asyncio.create_task(remote.post(DEFINITIONS, json=definition(SMALL, plural="others")))
    await waiting(1)
    await answered_to_others(other, config_maps)
    assert not slow.done()
    helper.go_on()
    await ok(slow)
    await ok(remote.get("/apis/test.example/v1/others"))


@pytest.fixture
async def stored(remote) -> Object:
    """An object of a kind with a rule on two lists together."""
    await ok(remote.post(DEFINITIONS, json=definition(SMALL)))
    return await ok(remote.post(COSTLIES, json=costly()))


async def at_once(helper: Helper, waiting: Callable, *writes: Awaitable[httpx2.Response]) -> list[Any]:
    """The answers to writes that were all computed before the first of them was judged."""
    helper.stop()
    tasks = [asyncio.ensure_future(write) for write in writes]
    await waiting(len(tasks))
    helper.go_on()
    return await asyncio.gather(*tasks)


async def test_two_patches_at_once_are_both_kept(remote, other, helper, waiting, stored):
    """The second is computed and judged again, of what the first has made."""
    patches = (
        remote.patch(COSTLY, json={"spec": {"a": ["1"]}}, headers=MERGE),
        other.patch(COSTLY, json={"spec": {"b": ["2"]}}, headers=MERGE),
    )
    assert [answer.status_code for answer in await at_once(helper, waiting, *patches)] == [200, 200]
    now = await ok(remote.get(COSTLY))
    assert now["spec"] == {"a": ["1"], "b": ["2"]}
    assert now["metadata"]["generation"] == 3


async def test_two_patches_at_once_cannot_break_a_rule_together(remote, other, helper, waiting, stored):
    """Each alone keeps to it; whichever is second is refused."""
    patches = (
        remote.patch(COSTLY, json={"spec": {"a": ["1", "2", "3"]}}, headers=MERGE),
        other.patch(COSTLY, json={"spec": {"b": ["1", "2", "3"]}}, headers=MERGE),
    )
    answers = await at_once(helper, waiting, *patches)
    assert sorted(answer.status_code for answer in answers) == [200, 422]
    spec = (await ok(remote.get(COSTLY)))["spec"]
    assert len(spec["a"]) + len(spec["b"]) == 3


async def test_of_two_updates_of_one_version_the_second_conflicts(remote, other, helper, waiting, stored):
    """Both were up to date when they came."""
    updates = (
        remote.put(COSTLY, json=stored | {"spec": {"a": ["1"], "b": []}}),
        other.put(COSTLY, json=stored | {"spec": {"a": ["2"], "b": []}}),
    )
    answers = await at_once(helper, waiting, *updates)
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    won = next(answer.json() for answer in answers if answer.status_code == 200)
    assert await ok(remote.get(COSTLY)) == won


async def test_two_appliers_at_once_both_own_what_they_applied(remote, other, helper, waiting):
    """Server-side apply creates the object once; the other's fields are merged into it."""
    await ok(remote.post(DEFINITIONS, json=definition(SMALL)))
    first, second = costly(a=["1"]), costly(b=["2"])
    del first["spec"]["b"], second["spec"]["a"]
    applies = (
        remote.patch(f"{COSTLY}?fieldManager=one", json=first, headers=APPLY),
        other.patch(f"{COSTLY}?fieldManager=two", json=second, headers=APPLY),
    )
    answers = await at_once(helper, waiting, *applies)
    assert sorted(answer.status_code for answer in answers) == [200, 201]
    now = await ok(remote.get(COSTLY))
    assert now["spec"] == {"a": ["1"], "b": ["2"]}
    assert {entry["manager"] for entry in now["metadata"]["managedFields"]} == {"one", "two"}


async def test_two_creates_of_one_name_make_one_object(remote, other, helper, waiting):
    """The second finds that the name is taken."""
    await ok(remote.post(DEFINITIONS, json=definition(SMALL)))
    creates = (remote.post(COSTLIES, json=costly()), other.post(COSTLIES, json=costly()))
    answers = await at_once(helper, waiting, *creates)
    assert sorted(answer.status_code for answer in answers) == [201, 409]


async def test_an_object_that_was_deleted_meanwhile_stays_deleted(remote, other, helper, waiting, stored):
    """A write that was judged does not bring it back."""
    helper.stop()
    slow = asyncio.create_task(remote.patch(COSTLY, json={"spec": {"a": ["1"]}}, headers=MERGE))
    await waiting(1)
    await ok(other.delete(COSTLY))
    helper.go_on()
    assert (await slow).status_code == 404
    assert (await other.get(COSTLY)).status_code == 404


async def test_an_object_is_judged_by_the_rules_of_the_moment_of_its_write(
    server, remote, other, helper, waiting, stored
):
    """A definition that became stricter while an object was judged counts, and one that is gone."""
    path = f"{DEFINITIONS}/costlies.test.example"
    strict = await ok(remote.get(path))
    strict["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] |= {"maxProperties": 1}
    helper.stop()
    change = asyncio.create_task(other.put(path, json=strict))
    await waiting(1)
    write = asyncio.create_task(remote.patch(COSTLY, json={"spec": {"a": ["1"]}}, headers=MERGE))
    await waiting(2)
    helper.go_on()
    await ok(change)
    refused = await write
    assert refused.status_code == 422
    assert "at most 1" in refused.text, refused.text

    helper.stop()
    write = asyncio.create_task(remote.patch(COSTLY, json={"spec": {"b": None}}, headers=MERGE))
    await waiting(1)
    await ok(other.delete(path))
    async with asyncio.timeout(30):
        while (await other.get(path)).status_code != 404:
            await asyncio.sleep(0.01)
    helper.go_on()
    assert (await write).status_code == 404


async def test_a_generated_name_is_judged_once(server, remote, stored):
    """It is a part of the object, so the write that is done again keeps it."""
    before = server.parts.objects.judge.statistics()["judged_in_helper"]
    obj = costly() | {"metadata": {"generateName": "made-"}}
    made = await ok(remote.post(COSTLIES, json=obj))
    assert made["metadata"]["name"].startswith("made-")
    assert server.parts.objects.judge.statistics()["judged_in_helper"] == before + 1


async def test_an_object_that_others_keep_changing_conflicts_at_last(remote, server, stored, monkeypatch):
    """After a few attempts, the writer is told to try again."""
    judge = server.parts.objects.judge
    answer, asked = judge.answer, []

    async def answer_late(question):
        asked.append(question)
        server.parts.store.put(*changed(server, len(asked)))
        return await answer(question)

    monkeypatch.setattr(judge, "answer", answer_late)
    refused = await remote.patch(COSTLY, json={"spec": {"a": ["1"]}}, headers=MERGE)
    assert refused.status_code == 409
    assert f"was changed {ATTEMPTS} times by others while it was judged" in refused.json()["message"]
    assert len(asked) == ATTEMPTS


def changed(server: Running, count: int) -> tuple[Any, Object]:
    """The stored object as another writer leaves it."""
    (found,) = server.parts.store.select("costlies.test.example")
    obj = found.decode()
    obj["metadata"]["labels"] = {"count": str(count)}
    return found.key, obj


async def test_writes_that_wait_to_be_judged_are_bounded(remote, server, other, helper, waiting, stored):
    """One more than may wait gets 429, which is counted, and the others are served."""
    helper.stop()
    writes = [remote.post(COSTLIES, json=costly(f"n{count}")) for count in range(MAX_JUDGEMENTS)]
    tasks = [asyncio.create_task(write) for write in writes]
    await waiting(MAX_JUDGEMENTS)
    refused = await other.post(COSTLIES, json=costly("more"))
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert server.parts.shared.rejected["judgements"] == 1
    helper.go_on()
    assert {answer.status_code for answer in await asyncio.gather(*tasks)} == {201}
    await waiting(0)


async def test_a_server_ends_while_an_object_is_judged(remote, server, others, helper, waiting, stored):
    """The end of the judge ends its process, and does not wait for it."""
    helper.stop()
    slow = asyncio.create_task(remote.post(COSTLIES, json=costly("late")))
    await waiting(1)
    async with asyncio.timeout(100):
        await asyncio.to_thread(server.parts.objects.judge.close)
    assert (await slow).status_code == 503
    assert others.issuperset(helpers())
