"""The limit of a route is one for all workers of a gateway, whichever of them a connection comes to."""

import asyncio
import json

import pytest

from headgate.flow.limits import LeasedBudget, Presence, Standing
from headgate.quota.transport import Unreachable
from headgate.workers import messages
from headgate.workers.accounts import Accounts, SupervisorTransport


async def test_workers_let_through_one_limit(start_gateway, client, model_route, kubeconfig, eventually):
    """Of 40 requests of 40 tokens on connections of their own, a limit of 400 lets at most 10 pass."""
    route = model_route("limited", "m")
    route["spec"]["rateLimit"] = {"inputTokensPerUnit": 400, "unit": "month"}
    await client.apply_manifest(route, field_manager="test")
    gateway = await start_gateway("--workers", "2", "--rate-limits-wait-s", "10")
    body = json.dumps({"model": "limited", "prompt": "x" * 159})

    def post() -> int:
        return gateway.http.post(f"{gateway.url}/v1/completions", content=body).status_code

    await eventually(lambda: "default/limited" in gateway.get("/debug/limits").json())
    statuses = await asyncio.gather(*(asyncio.to_thread(post) for _ in range(40)))
    assert set(statuses) == {200, 429}
    assert 8 <= statuses.count(200) <= 10

    def used() -> int:
        answers = gateway.get("/debug/limits").json()["default/limited"]
        return sum(each["input"]["used"] for each in answers)

    await eventually(lambda: used() == 40 * statuses.count(200))


def test_a_supervisor_that_was_replaced_goes_on_where_the_other_was():
    """Its accounts are new; the first worker that claims tells what was left."""
    accounts = Accounts("one")
    budget = LeasedBudget("route", "worker", 1_000, 1_000_000_000, 0.0, lambda _: None)

    def talk(accounts: Accounts, now: float) -> None:
        claim = budget.claim(now)
        (grant,) = accounts.claim([("route", claim)], now)
        budget.granted(claim, grant, now)

    budget.ask(900, 0.0)
    talk(accounts, 0.0)
    assert budget.take(900, 0.0)
    talk(Accounts("two"), 1.0)
    assert not budget.take(101, 1.0)
    assert budget.available(1.0) == pytest.approx(100, abs=1)


def test_accounts_of_routes_that_are_gone_are_forgotten():
    """Once they are full again, and nobody has asked for long."""
    accounts = Accounts("one")
    budget = LeasedBudget("gone", "worker", 100, 1, 0.0, lambda _: None)
    accounts.claim([("gone", budget.claim(0.0))], 0.0)
    other = LeasedBudget("other", "worker", 100, 1, 0.0, lambda _: None)
    accounts.claim([("other", other.claim(500.0))], 500.0)
    assert len(accounts) == 2
    accounts.claim([("other", other.claim(1_000.0))], 1_000.0)
    assert len(accounts) == 1


async def test_claims_go_to_the_supervisor_and_back():
    """Over the channel: an answer finds who asked; nobody is asked who is being replaced."""
    sent: list[messages.Report] = []

    def send(report: messages.Report) -> bool:
        sent.append(report)
        return True

    transport = SupervisorTransport(send, workers=3)
    budget = LeasedBudget("route", "worker", 100, 1, 0.0, lambda _: None)
    here = Presence(turn=1, held=0, weight=0.0)
    asking = asyncio.create_task(transport.exchange([("route", budget.claim(0.0))], here))
    await asyncio.sleep(0)
    (report,) = sent
    assert isinstance(report, messages.Claims)
    grants = Accounts("one").claim(report.claims, 0.0)
    transport.granted(messages.Grants(report.id, grants))
    assert await asking == (grants, Standing(members=3))
    transport.is_hushed = True
    with pytest.raises(Unreachable):
        await transport.exchange([], here)
    assert len(sent) == 1
