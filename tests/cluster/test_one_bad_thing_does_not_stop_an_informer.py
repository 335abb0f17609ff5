"""Objects that can't be read, handlers that fail, lines that are nonsense."""

from headgate import api
from headgate.cluster import Change, Informer


def broken(name: str, uid: str = "uid") -> dict:
    return {"metadata": {"name": name, "namespace": "default", "uid": uid}, "data": {"key": 7}}


async def test_an_object_that_does_not_decode_is_reported_and_left_out(server, client, kit):
    """The others arrive, and statistics name the object and what is wrong with it."""
    server.put("good")
    server.put("bad")
    server.objects["bad"]["data"] = 7
    informer = Informer(client, api.ConfigMap)
    async with kit.running(informer.run()):
        await informer.wait_synced(5)
    assert [obj.metadata.name for obj in informer.items()] == ["good"]
    assert "data" in informer.statistics().unreadable["default/bad"]


async def test_an_object_that_stops_decoding_keeps_its_last_readable_state(server, client, kit, journal):
    """An unreadable change is reported, survives a relist, is no deletion; its real deletion is told."""
    server.put("a", key="before")
    informer = Informer(client, api.ConfigMap, pacing=kit.quick)
    informer.subscribe(journal)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        server.objects["a"] |= broken("a")
        server.send("MODIFIED", server.objects["a"])
        await kit.eventually(lambda: len(informer.statistics().unreadable) == 1)
        server.forget()
        server.drop()
        await kit.eventually(lambda: server.lists == 2 and server.watches == 3)
        assert informer.get("default", "a").data == {"key": "before"}
        server.delete("a")
        await kit.eventually(lambda: informer.get("default", "a") is None)
    assert journal.lines == ["ADDED a", "DELETED a"]
    assert informer.statistics().unreadable == {}


async def test_a_failing_handler_hurts_neither_the_informer_nor_other_handlers(server, client, kit, journal):
    """Its exception is counted, and everybody else hears of the change."""

    def failing(change: Change[api.ConfigMap]) -> None:
        raise RuntimeError(change.object.metadata.name)

    informer = Informer(client, api.ConfigMap)
    informer.subscribe(failing)
    informer.subscribe(journal)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        server.put("a")
        await kit.eventually(lambda: journal.lines == ["ADDED a"])
    assert informer.statistics().handler_failures == 1


async def test_nonsense_in_the_stream_is_a_failure_that_is_resumed_from(server, client, kit):
    """An event without an object ends the stream; what came before it is not lost, nor what comes after."""
    informer = Informer(client, api.ConfigMap, pacing=kit.quick)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        server.put("a")
        server.send("ERROR", kit.status(500, "InternalError", "etcd is on fire"))
        await kit.eventually(lambda: informer.statistics().restarts >= 2)
        assert "etcd is on fire" in informer.statistics().last_error
        server.events.pop()
        server.put("b")
        await kit.eventually(lambda: kit.state(informer) == server.state())
    assert server.lists == 1
