"""Pods that come and go move the count in many statuses: what that costs, and when the count is true."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate import api
from headgate.controllers import conditions
from headgate.controllers.conditions import Finding
from headgate.controllers.relations import Subject
from headgate.controllers.statuses import LONGEST_S, QUIET_S, Settling

LLM = {"app": "llm"}
ROUTES = 20
SUBJECT = Subject(api.ModelRoute, api.ObjectKey("default", "r"))


def counting(endpoints, *, generation=1):
    """The status of a route with as many endpoints."""
    told = f"{endpoints} endpoints in 1 ModelServer"
    reason = "EndpointsReady" if endpoints else "NoReadyEndpoints"
    found = [Finding("Ready", endpoints > 0, reason, told)]
    return conditions.observed(None, found, generation, "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("stored", "status"),
    [
        (None, counting(0)),
        (None, counting(3)),
        (counting(0), counting(3)),
        (counting(3), counting(0)),
        (counting(3), counting(4, generation=2)),
    ],
    ids=["first bad", "first good", "turned good", "turned bad", "edited"],
)
def test_what_is_more_than_words_does_not_wait(stored, status):
    """A first status, a turn, and a new generation are written at once."""
    settling = Settling()
    assert settling.wait_s(SUBJECT, stored, status, 0.0) == 0
    assert len(settling) == 0


def test_a_count_is_written_after_it_stood_still():
    """Each other count begins the quiet time anew; the same one does not."""
    settling, stored = Settling(quiet_s=2, longest_s=30), counting(3)
    assert settling.wait_s(SUBJECT, stored, counting(4), 10.0) == 2
    assert settling.wait_s(SUBJECT, stored, counting(4), 11.0) == 1
    assert settling.wait_s(SUBJECT, stored, counting(5), 11.5) == 2
    assert settling.wait_s(SUBJECT, stored, counting(5), 13.5) == 0


def test_a_count_that_came_back_begins_anew():
    """After a Pod that was away for a moment, the next change waits the whole time again."""
    settling, stored = Settling(quiet_s=2, longest_s=30), counting(3)
    settling.wait_s(SUBJECT, stored, counting(2), 0.0)
    settling.forget(SUBJECT)
    assert len(settling) == 0
    assert settling.wait_s(SUBJECT, stored, counting(2), 29.0) == 2


@given(changes=st.lists(st.tuples(st.floats(0.1, 6.0), st.integers(1, 4)), max_size=60))
@example([(1.0, 2 + n) for n in range(60)])
def test_any_rollout_costs_few_writes_and_ends_true(changes):
    """Whatever counts follow one another at whatever times: writes are at least the quiet time apart, what is
    stored is never wrong for longer than the longest time, and soon after the last change it is right."""
    settling, stored, now = Settling(), counting(1), 0.0
    actual, wrong_since, last_write = stored, None, -QUIET_S
    pauses = [(pause_s, counting(count)) for pause_s, count in changes]
    for pause_s, following in [*pauses, (QUIET_S + 0.01, None)]:
        until, look_at = now + pause_s, now
        while look_at < until:
            now = look_at
            if actual == stored:
                settling.forget(SUBJECT)
                wrong_since = None
                break
            wrong_since = now if wrong_since is None else wrong_since
            assert now - wrong_since <= LONGEST_S + 1e-6
            wait_s = settling.wait_s(SUBJECT, stored, actual, now)
            if wait_s:
                look_at = now + wait_s
                continue
            assert now - last_write >= QUIET_S - 1e-6
            stored, last_write = actual, now
        now, actual = until, following or actual
    assert stored == actual


async def all_say(client, told):
    """Whether this is the message of Ready in every route."""
    for route in await client.list(api.ModelRoute):
        found = route.status.conditions if route.status else []
        if [each.message for each in found if each.type == "Ready"] != [told]:
            return False
    return True


async def test_pods_that_come_and_go_write_no_route(client, kit):
    """With many routes on one pool: its second and third Pod cost no write before the count stands still,
    and that the last one is gone is written at once."""
    settling = Settling(quiet_s=3600, longest_s=3600)
    await kit.put_pod(client, "p0", LLM)
    await client.create(kit.server("s", LLM))
    for n in range(ROUTES):
        await client.create(kit.route(f"r{n}", kit.rule("s"), model=f"m{n}"))
    async with kit.controlling(client, settling=settling) as controller:
        await kit.eventually(lambda: all_say(client, "1 endpoint in 1 ModelServer"))

        async def all_settling():
            return controller.statistics().settling == ROUTES + 1

        async def none_settling():
            return controller.statistics().settling == 0

        async def server_done():
            return (await client.get(api.ModelServer, "s", "default")).status is not None

        await kit.eventually(server_done)
        written = ROUTES + 1
        for name in ("p1", "p2"):
            await kit.put_pod(client, name, LLM)
            await kit.eventually(all_settling)
        await client.delete(api.Pod, "p1", "default")
        await client.delete(api.Pod, "p2", "default")
        await kit.eventually(none_settling)
        assert controller.statistics().written == written
        await client.delete(api.Pod, "p0", "default")
        lost = "rule rules[0] has no ready endpoint in default/s"
        await kit.eventually(lambda: all_say(client, lost))
        assert controller.statistics().written <= written + 2 * (ROUTES + 1)


async def test_the_count_follows_and_the_time_of_the_turn_stays(client, kit):
    """The settled count is stored; when the route turned ready, and which edit was seen, stay."""
    await kit.put_pod(client, "p0", LLM)
    await client.create(kit.server("s", LLM))
    await client.create(kit.route("r", kit.rule("s")))
    async with kit.controlling(client, settling=Settling(quiet_s=0.2)):
        await kit.eventually(lambda: all_say(client, "1 endpoint in 1 ModelServer"))
        before = (await client.get(api.ModelRoute, "r", "default")).status
        for name in ("p1", "p2"):
            await kit.put_pod(client, name, LLM)
        await kit.eventually(lambda: all_say(client, "3 endpoints in 1 ModelServer"))
    after = (await client.get(api.ModelRoute, "r", "default")).status
    assert conditions.is_reworded(before, after)
