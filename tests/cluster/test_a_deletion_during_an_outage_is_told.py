"""The fault that most watchers get wrong: an object vanishes while nobody could look."""

import pytest

from headgate import api
from headgate.cluster import Informer


@pytest.mark.parametrize("expired", [False, True], ids=["drop only", "drop and 410"])
async def test_the_deletion_of_a_is_told_and_d_still_arrives(server, client, kit, journal, expired):
    """Streams drop, the server is away, a goes and c comes: handlers hear of both, and of d afterwards."""
    server.put("a")
    server.put("b")
    informer = Informer(client, api.ConfigMap, pacing=kit.quick)
    informer.subscribe(journal)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        server.down = True
        server.drop()
        server.delete("a")
        server.put("c")
        await kit.eventually(lambda: informer.statistics().restarts >= 3)
        if expired:
            server.forget()
        server.down = False
        await kit.eventually(lambda: len(journal.lines) == 4)
        server.put("d")
        await kit.eventually(lambda: informer.get("default", "d") is not None)
    assert journal.lines == ["ADDED a", "ADDED b", "DELETED a", "ADDED c", "ADDED d"]
    assert kit.state(informer) == server.state()
    assert server.lists == (2 if expired else 1)


async def test_an_object_made_anew_while_nobody_looked_is_another_object(server, client, kit, journal):
    """A name that came back with another uid is told as DELETED and ADDED, never as MODIFIED."""
    server.put("a")
    informer = Informer(client, api.ConfigMap, pacing=kit.quick)
    informer.subscribe(journal)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        server.down = True
        server.drop()
        server.delete("a")
        server.put("a")
        server.forget()
        server.down = False
        await kit.eventually(lambda: len(journal.lines) == 3)
    assert journal.lines == ["ADDED a", "DELETED a", "ADDED a"]


async def test_a_version_that_always_expires_does_not_make_it_list_in_a_loop(server, client, kit):
    """The second expiry in a row waits for its backoff like any other failure."""
    server.put("a")
    server.oldest = 1 << 60
    informer = Informer(client, api.ConfigMap)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.lists == 2)
        await kit.eventually(lambda: informer.statistics().restarts == 2)
        assert server.lists == 2
