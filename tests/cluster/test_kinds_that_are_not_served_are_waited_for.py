"""A server that lacks a kind has no objects of it; whoever follows it goes on, and finds it when it comes."""

import dataclasses
import logging

import pytest

from headgate import api
from headgate.cluster import Informer, NamedObjects

FORBIDDEN = (
    "configmaps of all namespaces may not be read: refused; add the rule "
    '{apiGroups: [""], resources: [configmaps], verbs: [list, watch]} to a ClusterRole that is bound to this '
    "account. Access is tried again now and then"
)


@pytest.mark.parametrize(
    ("code", "why"),
    [(404, "/api/v1/configmaps is not served: it is looked for now and then"), (403, FORBIDDEN)],
)
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
    assert told == [why]
    assert informer.denied is None


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


async def test_objects_are_kept_while_access_is_denied(server, client, kit, journal):
    """A role that is removed by mistake, or a server that cannot check rights, must not stop traffic."""
    server.put("a")
    pacing = dataclasses.replace(kit.quick, absent_s=0.0)
    informer = Informer(client, api.ConfigMap, "default", pacing=pacing, may_be_absent=True)
    informer.subscribe(journal)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        server.refusal = 403
        server.drop()
        await kit.eventually(lambda: server.lists > 4)
        assert informer.denied is not None
        assert "Role in namespace default" in str(informer.denied)
        assert journal.lines == ["ADDED a"]
        server.refusal = 0
        await kit.eventually(lambda: server.watches == 2)
        assert (informer.denied, journal.lines) == (None, ["ADDED a"])


@pytest.mark.parametrize(
    ("namespace", "is_gone"),
    [((404, "NotFound"), True), ((404, ""), False), ((403, "Forbidden"), False), ((500, ""), False)],
    ids=str,
)
async def test_objects_of_a_deleted_namespace_are_deleted(server, client, kit, journal, namespace, is_gone):
    """Its role is deleted with it, so access is denied. Only a server that says so is believed."""
    server.put("a")
    informer = Informer(client, api.ConfigMap, "default", pacing=kit.quick)
    informer.subscribe(journal)
    async with kit.running(informer.run()):
        await kit.eventually(lambda: server.watches == 1)
        server.refusal, server.namespace = 403, namespace
        server.drop()
        await kit.eventually(lambda: server.lists > 4)
        assert journal.lines == ["ADDED a", *(["DELETED a"] if is_gone else [])]
        server.refusal = 0
        await kit.eventually(lambda: server.watches == 2)
        assert list(journal.known) == ["a"]


async def test_a_kind_that_must_be_there_is_known_to_be_denied(server, client, kit):
    """Whoever waits for it goes on after a while, without objects."""
    server.refusal = 403
    informer = Informer(client, api.ConfigMap, pacing=kit.quick)
    async with kit.running(informer.run()):
        await informer.wait_known(0.1)
        assert not informer.synced.is_set()
        server.refusal = 0
        await informer.wait_synced(5)


async def test_a_single_object_is_named_in_the_rule(server, client, kit):
    server.refusal = 403
    objects = NamedObjects(client, api.ConfigMap, lambda _: None, pacing=kit.quick)
    objects.follow([api.ObjectKey("default", "ca")])
    async with kit.running(objects.run()):
        await kit.eventually(objects.denied)
        [denied] = objects.denied()
    assert denied.rule == (
        '{apiGroups: [""], resources: [configmaps], resourceNames: [ca], verbs: [list, watch]}'
    )
    assert objects.is_known(api.ObjectKey("default", "ca"))
