"""Of a kind only the named objects are asked for, as long as they are named."""

from headgate import api, apiserver
from headgate.cluster import Client, NamedObjects


def key(name):
    return api.ObjectKey("default", name)


def config_map(name, **data):
    return api.ConfigMap(metadata=api.ObjectMeta(name=name, namespace="default"), data=data)


async def test_what_is_named_is_followed(tmp_path, kit, journal):
    """Objects come and go, those that are not named stay unknown, and the names can change at any time."""
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        Client.from_kubeconfig(server.kubeconfig) as client,
    ):
        await client.create(config_map("a", k="1"))
        await client.create(config_map("other"))
        named = NamedObjects(client, api.ConfigMap, journal, pacing=kit.quick)
        named.follow({key("a"), key("b")})
        async with kit.running(named.run()):
            await named.wait_known(10)
            assert named.is_known(key("a"))
            assert named.is_known(key("b"))
            assert not named.is_known(key("other"))
            assert [each.metadata.name for each in named.items()] == ["a"]
            await client.create(config_map("b"))
            await kit.eventually(lambda: named.get(key("b")) is not None)
            await client.delete(api.ConfigMap, "a", "default")
            await kit.eventually(lambda: named.get(key("a")) is None)
            named.follow({key("b")})
            named.follow(())
            named.follow({key("other")})
            await kit.eventually(lambda: named.get(key("other")) is not None)
            assert named.items() == [named.get(key("other"))]
            assert named.statistics() == {"followed": 1, "known": 1}


async def test_what_may_not_be_read_is_known_not_to_be(server, client, kit, journal):
    """A server that refuses does not hold up who waits for other objects."""
    server.down = True
    named = NamedObjects(client, api.ConfigMap, journal, pacing=kit.quick)
    named.follow({key("a")})
    async with kit.running(named.run()):
        await kit.eventually(lambda: named.is_known(key("a")))
        await named.wait_known(0)
        assert named.get(key("a")) is None
