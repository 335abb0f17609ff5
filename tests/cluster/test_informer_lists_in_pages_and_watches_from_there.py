"""What an informer asks of a server."""

import msgspec

from headgate import api
from headgate.cluster import Informer


async def test_a_long_list_comes_in_pages(server, client, kit):
    """1,201 objects are three pages of at most 500, and one complete copy."""
    for number in range(1201):
        server.put(f"object-{number}")
    informer = Informer(client, api.ConfigMap)
    async with kit.running(informer.run()):
        await informer.wait_synced(5)
    asked = [request.query_params for request in server.requests if "limit" in request.query_params]
    assert [(each["limit"], each.get("continue")) for each in asked] == [
        ("500", None),
        ("500", "500"),
        ("500", "1000"),
    ]
    assert kit.state(informer) == server.state()


async def test_the_watch_begins_at_the_list_and_resumes_behind_the_last_event(server, client, kit):
    """Changes and bookmarks advance the version from which a dropped watch resumes, without a new list."""
    server.put("a")
    informer = Informer(client, api.ConfigMap, namespace="default", label_selector="app=x", pacing=kit.quick)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        server.send("BOOKMARK", {})
        await kit.eventually(lambda: informer.statistics().events == 1)
        server.drop()
        await kit.eventually(lambda: server.watches == 2)
        server.put("b")
        await kit.eventually(lambda: informer.statistics().events == 2)
        server.drop()
        await kit.eventually(lambda: server.watches == 3)
    watches = [each for each in server.requests if each.query_params.get("watch")]
    assert [each.query_params["resourceVersion"] for each in watches] == ["1", "2", "3"]
    for each in watches:
        assert each.url.path == "/api/v1/namespaces/default/configmaps"
        assert each.query_params["allowWatchBookmarks"] == "true"
        assert each.query_params["labelSelector"] == "app=x"
        assert 300 <= int(each.query_params["timeoutSeconds"]) <= 600
    assert server.lists == 1


async def test_a_late_subscriber_is_told_what_is_there(server, client, kit, journal):
    """Subscribing after the sync begins with an ADDED of every known object, and can end."""
    server.put("a")
    informer = Informer(client, api.ConfigMap)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        unsubscribe = informer.subscribe(journal)
        assert journal.lines == ["ADDED a"]
        unsubscribe()
        server.put("b")
        await kit.eventually(lambda: informer.get("default", "b") is not None)
    assert journal.lines == ["ADDED a"]


async def test_only_a_part_of_each_object_is_kept(server, client, kit, journal):
    """Of those that are listed, and of those that change."""
    server.put("a")

    def without_labels(obj):
        return msgspec.structs.replace(
            obj, metadata=msgspec.structs.replace(obj.metadata, labels={"kept": ""})
        )

    informer = Informer(client, api.ConfigMap, pacing=kit.quick, reduced=without_labels)
    informer.subscribe(journal)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        server.put("b")
        await kit.eventually(lambda: journal.lines == ["ADDED a", "ADDED b"])
        assert [each.metadata.labels for each in informer.items()] == [{"kept": ""}] * 2
