"""A server that lacks a kind has no objects of it; whoever follows it goes on, and finds it when it comes."""

import dataclasses
import logging

import pytest

from headgate import api
from headgate.cluster import Informer


@pytest.mark.parametrize(("code", "why"), [(404, "is not served"), (403, "may not be read")])
async def test_a_kind_that_may_be_absent_is_known_to_have_no_objects(
    server, client, kit, journal, caplog, code, why
):
    """The copy is ready and empty, this is said once, and the kind is found when it comes."""
    caplog.set_level(logging.WARNING)
    server.refusal = code
    informer = Informer(client, api.ConfigMap, pacing=kit.quick, may_be_absent=True)
    informer.subscribe(journal)
    async with kit.running(informer.run()):
        await informer.wait_synced(5)
        await kit.eventually(lambda: server.lists > 3)
        assert (informer.items(), journal.lines) == ((), [])
        server.put("a")
        server.refusal = 0
        await kit.eventually(lambda: journal.lines == ["ADDED a"])
    told = [record.getMessage() for record in caplog.records if record.name.startswith("headgate")]
    assert told == [f"/api/v1/configmaps {why}: it is looked for now and then"]


async def test_other_kinds_are_waited_for(server, client, kit):
    """Without leave to be absent, there is nothing to go on with."""
    server.refusal = 404
    informer = Informer(client, api.ConfigMap, pacing=kit.quick)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.lists > 3)
        assert not informer.synced.is_set()
        server.refusal = 0
        await informer.wait_synced(5)


@pytest.mark.parametrize(("absent_s", "expected"), [(3600.0, ["ADDED a"]), (0.0, ["ADDED a", "DELETED a"])])
async def test_a_kind_that_goes_away_keeps_its_objects_for_a_while(
    server, client, kit, journal, absent_s, expected
):
    """A server that has just started may say that it lacks what it has: it is believed after a while only."""
    server.put("a")
    pacing = dataclasses.replace(kit.quick, absent_s=absent_s)
    informer = Informer(client, api.ConfigMap, pacing=pacing, may_be_absent=True)
    informer.subscribe(journal)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        server.refusal = 404
        server.drop()
        await kit.eventually(lambda: server.lists > 4)
        assert journal.lines == expected
        server.refusal = 0
        await kit.eventually(lambda: server.watches == 2)
        assert list(journal.known) == ["a"]
