"""The condition LimitsShared of a ModelRoute tells how many gateways do not count it with the others."""

import msgspec
import pytest

from headgate import api, apiserver, cluster
from headgate.kubeschema.timestamps import seconds
from headgate.quota import conditions
from headgate.quota.conditions import HOLD_S, LimitConditions, due
from headgate.quota.gateways import FORGET_S, GONE_S, LOOK_S, RENEW_S, Gateways
from headgate.routing.model_routes import token_limits

ADDRESS = "redis:6379"
NOW = 1_800_000_000.0


def route(said=None, name="shared", **limit):
    spec = {
        "modelName": "m",
        "rules": [{"targetModels": [{"modelServerName": "pool"}]}],
        "rateLimit": {"inputTokensPerUnit": 1000, "global": {"redis": {"address": ADDRESS}}, **limit},
    }
    status = {"conditions": [msgspec.to_builtins(said)]} if said is not None else {}
    metadata = {"name": name, "namespace": "default"}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, api.ModelRoute)


def written(said, before=None, others=()):
    made = route(before)
    return due(made, token_limits(made.spec.rate_limit), said, list(others), NOW)


ALL_WELL = {"a": "", "b": "", "c": ""}
ONE_AWAY = {"a": "", "b": "refused", "c": ""}


def test_gateways_are_counted():
    """How many are away, of how many, and what the first of them meet."""
    assert written({}) is None
    well = written(ALL_WELL)
    assert (well.status, well.reason) == ("True", "RedisReached")
    away = written(ONE_AWAY)
    assert (away.status, away.reason) == ("False", "RedisUnreachable")
    assert away.message.startswith("1 of 3 gateway processes")
    assert away.message.endswith(f"{ADDRESS} does not count for them: b: refused")
    assert away.last_transition_time == seconds(NOW)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (ALL_WELL, ALL_WELL),
        (ALL_WELL, {"a": ""}),
        (ONE_AWAY, {"a": "no answer within 50 ms", "b": "", "c": ""}),
    ],
)
def test_what_is_right_is_not_written_again(before, now):
    """The words of a failure may change each time."""
    assert written(now, written(before)) is None


@pytest.mark.parametrize(
    ("before", "now"),
    [(ALL_WELL, ONE_AWAY), (ONE_AWAY, ALL_WELL), (ONE_AWAY, {"a": "refused", "b": "refused", "c": ""})],
)
def test_what_has_changed_is_written(before, now):
    """Whether any is away, and how many are."""
    assert written(now, written(before)) is not None


def test_routes_that_share_a_bucket_say_so():
    """Where each applies its own limit to what both use."""
    assert "one bucket with default/other" in written(ALL_WELL, others=["default/other"]).message
    assert "one bucket with default/other" in written(ONE_AWAY, others=["default/other"]).message
    assert written(ALL_WELL, written(ALL_WELL), ["default/other"]) is not None


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


class Gateway:
    """One, as far as it writes conditions."""

    def __init__(self, client, name, clock, namespaces=()):
        self.trouble = {ADDRESS: ""}
        self.counted = []
        self._client = client
        self._writer = LimitConditions(
            client,
            lambda address, model: self.trouble.get(address),
            Gateways(client, name, 1, namespaces, clock),
            self.counted.append,
            clock,
        )

    async def look(self):
        for found in await self._client.list(api.ModelRoute, "default"):
            self._writer.note(cluster.Change(cluster.ChangeKind.MODIFIED, None, found))
        await self._writer.update()

    def hear_of(self, route):
        self._writer.note(cluster.Change(cluster.ChangeKind.ADDED, None, route))


@pytest.fixture
async def client(tmp_path):
    """Of an API server."""
    async with (
        apiserver.running(apiserver.Config(tmp_path, port=0)) as server,
        cluster.Client.from_kubeconfig(server.kubeconfig) as client,
    ):
        yield client


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def said(client):
    async def said(name="shared"):
        status = (await client.get(api.ModelRoute, name, "default")).status
        found = {each.type: each for each in status.conditions} if status is not None else {}
        return found.get("LimitsShared")

    return said


async def all_look(clock, *gateways):
    """Each some times, until all have heard of all."""
    for _ in range(3):
        for gateway in gateways:
            await gateway.look()
        clock.now += LOOK_S


async def test_gateways_are_told_apart_by_the_ends_of_long_names(client, clock):
    """As Pods of one Deployment are, in whose containers each process has the same number."""
    long = "headgate-gateway-of-a-team-with-a-very-long-name-7d9f8b6c5d-"
    gateways = [Gateway(client, long + end, clock) for end in ("abc", "xyz")]
    await client.create(route())
    await all_look(clock, *gateways)
    assert gateways[0].counted[-1] == 2


async def test_gateways_have_one_word_between_them(client, clock, said):
    """Where one of two does not reach Redis, that is what is written, whoever looks when."""
    one, other = (Gateway(client, name, clock) for name in ("one", "other"))
    await client.create(route())
    await all_look(clock, one, other)
    assert one.counted[-1] == other.counted[-1] == 2
    assert (await said()).status == "True"
    other.trouble[ADDRESS] = "it refuses"
    await all_look(clock, one, other)
    found = await said()
    assert found.message.startswith("1 of 2 gateway processes")
    assert found.message.endswith("other-1: it refuses")
    version = (await client.get(api.ModelRoute, "shared", "default")).metadata.resource_version
    await all_look(clock, other, one)
    assert (await client.get(api.ModelRoute, "shared", "default")).metadata.resource_version == version
    other.trouble[ADDRESS] = ""
    await other.look()
    await one.look()
    assert (await said()).status == "False", "it may fail again at once"
    clock.now += HOLD_S
    await all_look(clock, one, other)
    assert (await said()).status == "True"


async def test_gateways_of_another_namespace_are_none_of_these(client, clock, said):
    """Whose name may be the first, but who know nothing of these routes."""
    elsewhere = Gateway(client, "a", clock, "elsewhere")
    one = Gateway(client, "one", clock, "default")
    elsewhere.hear_of(route(name="of-elsewhere"))
    await elsewhere.look()
    await client.create(route())
    await all_look(clock, one)
    assert one.counted[-1] == 1
    assert (await said()).status == "True"


async def test_gateways_that_are_gone_do_not_count(client, clock, said):
    """The next one by name writes then; what is left of it is deleted in the end."""
    one, other = (Gateway(client, name, clock) for name in ("one", "other"))
    await client.create(route())
    one.trouble[ADDRESS] = "it refuses"
    await all_look(clock, one, other)
    assert (await said()).status == "False"
    clock.now += GONE_S
    await all_look(clock, other)
    assert other.counted[-1] == 1
    assert (await said()).status == "True"
    clock.now += FORGET_S
    await all_look(clock, other)
    (lease,) = await client.list(api.Lease)
    assert lease.spec.holder_identity == "other-1"


async def test_the_condition_is_there_as_long_as_limits_are_shared(client, clock, said):
    """Beside the conditions of others; a route that was deleted is not made again."""
    one = Gateway(client, "one", clock)
    created = await client.create(route())
    one.trouble.clear()
    await one.look()
    assert await said() is None
    ready = {"type": "Ready", "status": "True", "reason": "R", "message": "m"}
    ready["lastTransitionTime"] = seconds(NOW)
    await client.patch_status(api.ModelRoute, "shared", "default", {"conditions": [ready]})
    one.trouble[ADDRESS] = "it refuses"
    await one.look()
    status = (await client.get(api.ModelRoute, "shared", "default")).status
    assert {each.type: each.status for each in status.conditions} == {
        "Ready": "True",
        "LimitsShared": "False",
    }
    limit = {"inputTokensPerUnit": 1000, "global": None}
    await client.patch(api.ModelRoute, "shared", "default", {"spec": {"rateLimit": limit}})
    await one.look()
    assert await said() is None
    await client.delete(api.ModelRoute, "shared", "default", uid=created.metadata.uid)
    one.hear_of(created)
    await one.look()
    assert await client.list(api.ModelRoute, "default") == []


async def test_routes_of_one_model_with_two_limits_are_warned_of(client, clock, said, caplog):
    """They use one bucket in Redis, which their model names, as Kthena's router does."""
    one = Gateway(client, "one", clock)
    await client.create(route())
    await client.create(route(name="same"))
    await one.look()
    assert "bucket" not in (await said()).message
    await client.create(route(name="zother", inputTokensPerUnit=7))
    await one.look()
    await one.look()
    assert "one bucket with default/zother" in (await said()).message
    assert "one bucket with default/same, default/shared" in (await said("zother")).message
    assert sum("in one bucket" in each.getMessage() for each in caplog.records) == 3


async def test_without_the_right_to_leases_it_is_logged(client, clock, caplog):
    """Once; all else goes on."""

    class Forbidden:
        def __getattr__(self, name):
            return getattr(client, name)

        async def patch(self, of, *arguments, **options):
            if of is api.Lease:
                raise cluster.Forbidden("leases are not for you")
            return await client.patch(of, *arguments, **options)

    await client.create(route())
    one = Gateway(Forbidden(), "one", clock)
    for _ in range(3):
        await one.look()
        clock.now += RENEW_S
    assert sum("leases are not for you" in each.getMessage() for each in caplog.records) == 1


class Silent:
    """Gateways of which one is known, and whose Leases nobody writes."""

    me = "me"

    async def report(self, problems):
        self.problems = problems

    async def all(self):
        return {"me": self.problems}

    async def forget_gone(self):
        pass


async def test_a_look_at_thousands_of_routes_is_bounded(monkeypatch):
    """All in one bucket, each with a limit of its own: each look writes a hundred conditions, and compares no
    route with every other."""
    writer = LimitConditions(None, lambda address, model: "", Silent(), lambda count: None, Clock())
    written, looked_at = [], []
    bucket = conditions._bucket
    monkeypatch.setattr(conditions, "_bucket", lambda *given: looked_at.append(1) or bucket(*given))

    async def write(route, conditions):
        written.append((route.metadata.name, conditions))
        writer.note(cluster.Change(cluster.ChangeKind.MODIFIED, None, with_condition(route, conditions)))

    monkeypatch.setattr(writer, "_write", write)
    for n in range(1000):
        made = route(name=f"r{n:04}", inputTokensPerUnit=1000 + n)
        writer.note(cluster.Change(cluster.ChangeKind.ADDED, None, made))
    for looks in range(1, 11):
        await writer.update()
        assert len(written) == 100 * looks
    assert len({name for name, _ in written}) == 1000
    assert len(looked_at) <= 10 * 2 * 1000
    message = written[0][1][0].message
    assert "default/r0001" in message
    assert "979 more" in message
    await writer.update()
    assert len(written) == 1000


def with_condition(route, conditions):
    return msgspec.structs.replace(route, status=api.ObservedStatus(conditions=conditions))
