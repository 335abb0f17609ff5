"""A gateway that cannot make sense of a change goes on by what it knew."""

import asyncio

from headgate import api, apiserver, cluster, routing
from headgate.gateway import GatewaySettings
from headgate.gateway.service import Service

ROUTE = {
    "apiVersion": api.ModelRoute.resource.api_version,
    "kind": "ModelRoute",
    "spec": {"rules": [{"targetModels": [{"modelServerName": "s"}]}]},
}


def route(name: str) -> dict[str, object]:
    spec = ROUTE["spec"] | {"modelName": name}
    return ROUTE | {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def test_requests_go_on_by_the_objects_of_before(tmp_path, eventually, monkeypatch, caplog):
    """The change is lost until the next, which puts all of them into effect; it is counted and logged."""
    failures = iter([True])
    translate = routing.translate

    def fail_once(routes, *others):
        routes = list(routes)
        if len(routes) == 2 and next(failures, False):
            raise RuntimeError("a fault of ours")
        return translate(routes, *others)

    monkeypatch.setattr(routing, "translate", fail_once)
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        cluster.Client.from_kubeconfig(server.kubeconfig) as client,
        asyncio.TaskGroup() as tasks,
    ):
        await client.create_manifest(route("a"))
        ready = asyncio.Event()
        service = Service(
            GatewaySettings().replace(kubernetes_kubeconfig=str(server.kubeconfig), logging_access_log="off")
        )
        following = tasks.create_task(service.run(ready.set))
        await ready.wait()
        proxy = service.proxy
        await client.create_manifest(route("b"))
        await eventually(lambda: proxy.recorder.translations_failed.labels().value == 1)
        assert proxy.snapshot.names() == ["a"]
        assert "requests go on by those of before" in caplog.text
        await client.create_manifest(route("c"))
        await eventually(lambda: proxy.snapshot.names() == ["a", "b", "c"])
        following.cancel()
        await service.close()
