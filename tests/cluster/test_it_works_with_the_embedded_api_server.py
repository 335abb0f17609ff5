"""The same client and informer against our own API server, TLS and token included."""

import contextlib

import pytest

from headgate import api, apiserver
from headgate.cluster import AlreadyExists, Client, Informer, Invalid, NotFound, PatchType


def config_map(name: str, **data: str) -> api.ConfigMap:
    return api.ConfigMap(metadata=api.ObjectMeta(name=name, namespace="default"), data=data)


async def test_every_verb_and_the_errors(tmp_path):
    """Create, get, patch, apply, list and delete do what they say, and refusals have their types."""
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        Client.from_kubeconfig(server.kubeconfig) as client,
    ):
        created = await client.create(config_map("a", k="1"))
        assert created.metadata.uid
        with pytest.raises(AlreadyExists):
            await client.create(config_map("a"))
        patched = await client.patch(api.ConfigMap, "a", "default", {"data": {"k": "2"}}, PatchType.MERGE)
        assert patched.data == {"k": "2"}
        await client.apply_manifest(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "b", "namespace": "default"},
                "data": {"x": "y"},
            }
        )
        assert {each.metadata.name for each in await client.list(api.ConfigMap, "default")} == {"a", "b"}
        with pytest.raises(Invalid) as refused:
            await client.create_manifest(
                {
                    "apiVersion": api.ModelServer.resource.api_version,
                    "kind": "ModelServer",
                    "metadata": {"name": "m", "namespace": "default"},
                    "spec": {"inferenceEngine": "abacus"},
                }
            )
        assert any(cause.field == "spec.inferenceEngine" for cause in refused.value.causes)
        await client.delete(api.ConfigMap, "a", "default", uid=created.metadata.uid)
        with pytest.raises(NotFound):
            await client.get(api.ConfigMap, "a", "default")


async def test_what_changed_while_the_server_restarted_is_told(tmp_path, kit, journal, unused_tcp_port):
    """An informer outlives its server: after a restart it tells the deletion that it could not see."""
    config = apiserver.Config(tmp_path, port=unused_tcp_port)
    async with contextlib.AsyncExitStack() as stack:
        async with apiserver.running(config) as server:
            client = await stack.enter_async_context(Client.from_kubeconfig(server.kubeconfig))
            await client.create(config_map("a"))
            await client.create(config_map("b"))
            informer = Informer(client, api.ConfigMap, "default", pacing=kit.quick)
            informer.subscribe(journal)
            await stack.enter_async_context(kit.running(informer.run()))
            await kit.eventually(lambda: len(journal.known) == 2)
        await kit.eventually(lambda: informer.statistics().restarts > 0)
        async with apiserver.running(config):
            await client.delete(api.ConfigMap, "a", "default")
            await client.create(config_map("c"))
            await kit.eventually(lambda: set(journal.known) == {"b", "c"})
            await client.patch(api.ConfigMap, "b", "default", {"data": {"k": "v"}})
            await kit.eventually(lambda: informer.get("default", "b").data == {"k": "v"})
