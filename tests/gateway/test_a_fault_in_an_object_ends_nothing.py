"""A gateway that fails to apply a change keeps its previous state."""

import asyncio
import contextlib
import itertools
import json

from headgate import api, apiserver, cluster
from headgate.dataplane import following as following_objects
from headgate.gateway import GatewaySettings
from headgate.gateway.service import Service
from headgate.routing import model_routes

ROUTE = {
    "apiVersion": api.ModelRoute.resource.api_version,
    "kind": "ModelRoute",
    "spec": {"rules": [{"targetModels": [{"modelServerName": "s"}]}]},
}


def route(name: str) -> dict[str, object]:
    spec = ROUTE["spec"] | {"modelName": name}
    return ROUTE | {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@contextlib.asynccontextmanager
async def following(tmp_path, *names):
    """A gateway that follows the objects of an API server, with these routes."""
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        cluster.Client.from_kubeconfig(server.kubeconfig) as client,
        asyncio.TaskGroup() as tasks,
    ):
        for name in names:
            await client.create_manifest(route(name))
        ready = asyncio.Event()
        gateway = Service(
            GatewaySettings().replace(kubernetes_kubeconfig=str(server.kubeconfig), logging_access_log="off")
        )
        running = tasks.create_task(gateway.run(ready.set))
        await ready.wait()
        yield gateway.shell, client
        running.cancel()
        await gateway.close()


async def test_an_object_that_cannot_be_translated_keeps_out_no_other(
    tmp_path, eventually, monkeypatch, caplog
):
    """The others are put into effect; the failure is counted and logged, and the object is tried again."""
    translate = model_routes.route

    def fail(source, *others):
        if source.metadata.name == "b" and shell.plane.snapshot.names() == ["a"]:
            raise RuntimeError("a fault of ours")
        return translate(source, *others)

    monkeypatch.setattr(model_routes, "route", fail)
    async with following(tmp_path, "a") as (shell, client):
        await client.create_manifest(route("b"))
        await eventually(lambda: shell.recorder.translations_failed.labels().value == 1)
        assert shell.plane.snapshot.names() == ["a"]
        assert "ModelRoute default/b cannot be applied" in caplog.text
        await client.create_manifest(route("c"))
        await eventually(lambda: shell.plane.snapshot.names() == ["a", "c"])
        await client.create_manifest(route("d"))
        await eventually(lambda: shell.plane.snapshot.names() == ["a", "b", "c", "d"])


async def test_a_snapshot_that_cannot_be_taken_up_is_made_up_for(tmp_path, eventually, monkeypatch, caplog):
    """Requests go on by the objects of before; the next change puts all of them into effect."""
    async with following(tmp_path, "a") as (shell, client):
        change = shell.services.models.change
        failures = iter([True])

        def fail_once(*arguments):
            if next(failures, False):
                raise RuntimeError("a fault of ours")
            return change(*arguments)

        monkeypatch.setattr(shell.services.models, "change", fail_once)
        await client.create_manifest(route("b"))
        await eventually(lambda: shell.recorder.translations_failed.labels().value == 1)
        assert shell.plane.snapshot.names() == ["a"]
        assert "requests continue with the previous ones" in caplog.text
        await client.create_manifest(route("c"))
        await eventually(lambda: shell.plane.snapshot.names() == ["a", "b", "c"])
        listed = json.loads(shell.services.models.body())["data"]
        assert [model["id"] for model in listed] == ["a", "b", "c"]


async def test_a_flood_of_edits_leaves_most_of_the_core_to_requests(tmp_path, eventually, monkeypatch):
    """Where a translation takes 50 ms of CPU, the next follows no sooner than 450 ms later, and has all that
    changed meanwhile."""
    spent = itertools.count()
    monkeypatch.setattr(following_objects.time, "thread_time", lambda: next(spent) * 0.05)
    async with following(tmp_path, "a") as (shell, client):
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0.5)
        began, before = loop.time(), shell.snapshots_taken
        for place in range(40):
            await client.create_manifest(route(f"b{place}"))
        await eventually(lambda: len(shell.plane.snapshot.names()) == 41)
        assert shell.snapshots_taken - before <= 2 + (loop.time() - began) / 0.45
