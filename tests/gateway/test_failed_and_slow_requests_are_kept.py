"""The stories that the dashboard tells: of requests that failed, and of the slowest, in bounded memory."""

import types

import httpx2
import msgspec
import pytest

from headgate.dataplane.records import kept_requests, kept_story
from headgate.dataplane.records.kept_requests import KeptRequests
from headgate.dataplane.records.kept_story import KeptPage
from headgate.gateway import pages


async def page(gateway):
    transport = httpx2.ASGITransport(app=pages.admin_page(gateway.shell))
    async with httpx2.AsyncClient(transport=transport, base_url="http://admin") as client:
        return msgspec.json.decode((await client.get("/debug/kept")).content, type=KeptPage)


async def test_a_retried_request_has_both_attempts(start_gateway, start_endpoint):
    """Also if it is served in the end: it is among the slowest while there are few."""
    failing = await start_endpoint(behave=lambda call: call.reset())
    gateway = await start_gateway(failing, await start_endpoint(behave=lambda call: call.answer()))
    assert (await gateway.ask(X_Request_Id="mine")).status == 200
    (slow,) = (await page(gateway)).slow
    assert (slow.id, slow.status, slow.outcome, slow.origin) == ("mine", 200, "served", None)
    assert [(each.endpoint, each.outcome) for each in slow.attempts] == [
        ("default/pod-0", "reset"),
        ("default/pod-1", "served"),
    ]
    assert (slow.route, slow.pool, slow.model) == ("default/route", "default/pool", "m")
    assert slow.pick.prompt_tokens > 0
    assert 0 <= slow.attempts[0].began_s <= slow.attempts[1].began_s <= slow.total_s
    assert slow.attempts[1].address == slow.attempts[1].address.strip()


async def test_failures_are_kept_by_whose_fault_they_are(start_gateway, start_endpoint):
    """What clients do wrong does not push out what endpoints do."""
    gateway = await start_gateway(await start_endpoint(behave=lambda call: call.answer(b"no", "500 Oh")))
    assert (await gateway.ask()).status == 500
    assert (await gateway.ask({"model": "unknown"})).status == 404
    found = await page(gateway)
    assert [(each.status, each.origin, each.error) for each in found.failed] == [
        (500, "upstream", "the endpoint responded with status 500")
    ]
    (rejected,) = found.rejected
    assert (rejected.status, rejected.origin, rejected.pool, rejected.attempts) == (404, "client", None, [])
    assert "unknown" in rejected.error
    assert rejected.model == "unknown"


# -- how many


class Ended:
    """A served request that is over, with a number in place of a story."""

    def __init__(self, took_s, now, *, outcome="served", status=200):
        self.request = types.SimpleNamespace(arrived_at=now - took_s)
        account = types.SimpleNamespace(outcome=outcome, status=status, first_byte_at=now)
        self.life = types.SimpleNamespace(account=account, decision=types.SimpleNamespace(stream=True))
        self.took_s = took_s


@pytest.fixture
def keep(monkeypatch):
    """Ends a request that took so long at this time; its story is a part of it."""

    def story(ended, tokens, number, now):
        origin = "client" if ended.life.account.status == 404 else "gateway"
        return types.SimpleNamespace(number=number, at=now, took_s=ended.took_s, origin=origin)

    monkeypatch.setattr(kept_story, "story", story)
    monkeypatch.setattr(kept_story, "KeptPage", lambda *parts: parts)
    kept = KeptRequests()

    def end(took_s, now, **values):
        kept.settled(Ended(took_s, now, **values), None, now)

    end.shown = kept.shown
    return end


@pytest.mark.counts_calls
def test_the_slowest_of_each_minute_are_kept(keep):
    """Of a busy minute the few that took longest, in whatever order they came, and of a quiet one all."""
    for number in range(1000):
        keep((number * 7919) % 1000 / 100, 100.0 + number / 20)
    keep(0.0, 165.0)
    slow, *_ = keep.shown(170.0)
    assert sorted(each.took_s for each in slow) == [0.0, *(number / 100 for number in range(990, 1000))]


@pytest.mark.counts_calls
def test_old_ones_are_forgotten(keep):
    """After ten minutes, also if nothing else ends meanwhile."""
    keep(1.0, 100.0)
    assert len(keep.shown(100.0 + 9 * 60)[0]) == 1
    assert keep.shown(100.0 + 12 * 60)[0] == []
    for minute in range(100):
        for number in range(30):
            keep(1.0 + number, 2000.0 + 60 * minute)
    slow, *_ = keep.shown(2000.0 + 60 * 99)
    assert len(slow) == kept_requests.SLOW_OF_A_MINUTE * kept_requests.MINUTES


@pytest.mark.counts_calls
def test_a_flood_of_failures_is_counted_only(keep):
    """Stories cost time, and nobody reads thousands of the same."""
    for number in range(5000):
        keep(0.1, 100.0 + number / 1000, outcome="queue_full", status=429)
    _, failed, rejected, left_out = keep.shown(106.0)
    assert len(failed) == 5 * kept_requests.FAILURES_PER_S
    assert (rejected, left_out) == ([], 5000 - len(failed))
    for number in range(500):
        keep(0.1, 200.0 + number, outcome="model_not_found", status=404)
    _, failed, rejected, _ = keep.shown(701.0)
    assert (len(failed), len(rejected)) == (50, kept_requests.REJECTED)
    assert rejected[0].at > rejected[-1].at


@pytest.mark.counts_calls
def test_a_bug_in_a_story_costs_no_response(keep, monkeypatch, caplog):
    """It is logged, and the request is not kept."""

    def broken(*_):
        raise ValueError("a bug")

    monkeypatch.setattr(kept_story, "story", broken)
    ended = Ended(1.0, 100.0)
    ended.life.story = dict
    KeptRequests().settled(ended, None, 100.0)
    assert "not kept for the dashboard" in caplog.text
