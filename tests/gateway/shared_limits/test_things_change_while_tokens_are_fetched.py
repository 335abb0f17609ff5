"""Changes while tokens are being leased fail no request that could be sent."""

import asyncio

import pytest

from headgate import routing
from headgate.flow.limits import LeaseAccount, LocalBudget, Standing
from headgate.quota import sources

MONTH_S = 30 * 86_400
LIMITS = routing.TokenLimits(input=1_000, unit="month", unit_s=MONTH_S, redis_address="redis:6379")
LONG_S = 10.0
"""For answers of the account: how soon they come is not what is tested here."""


def prompt(tokens: int) -> dict[str, str]:
    return {"model": "m", "prompt": "x" * (4 * tokens - 1)}


class Account:
    """Answers as soon as it is open."""

    notice = ""

    def __init__(self) -> None:
        self.account = LeaseAccount(LocalBudget(1_000, MONTH_S, 0.0), "one")
        self.open = asyncio.Event()
        self.open.set()
        self.waiting = 0

    async def exchange(self, claims, presence):
        now = asyncio.get_running_loop().time()
        grants = [self.account.claim(claim, now) for _, claim in claims]
        if any(claim.need for _, claim in claims):
            self.waiting += 1
            await self.open.wait()
        return grants, Standing(members=1) if presence else None

    async def close(self):
        pass


@pytest.fixture
async def account(monkeypatch):
    """The one of every address."""
    account = Account()
    monkeypatch.setattr(sources, "_transport", lambda address, settings: account)
    return account


@pytest.fixture
async def endpoint(start_endpoint):
    return await start_endpoint(b"ok")


@pytest.fixture
async def gateway(start_gateway, account, endpoint):
    return await start_gateway(endpoint, settings={"rate_limits_wait_s": LONG_S}, limits=LIMITS)


@pytest.fixture
async def waiting(gateway, account, eventually):
    """A client whose request of 500 tokens waits for them; there are some on lease already."""
    assert (await gateway.ask(prompt(60))).status == 200
    await gateway.idle()
    account.open.clear()
    account.waiting = 0
    client = await gateway.connect()
    client.post(prompt(500))
    await eventually(lambda: account.waiting)
    return client


async def test_who_comes_meanwhile_takes_nothing_from_those_that_wait(gateway, account, waiting, monkeypatch):
    """A small request goes by what is left of the lease; what the large one lacks then is fetched as well."""
    (client,) = (client for client in gateway.shell.clients.all if client.exchange)
    at = client.exchange.request.arrived_at  # however slow the machine, there is time
    monkeypatch.setattr(gateway.shell.services, "now", lambda: at)
    assert (await gateway.ask(prompt(2))).status == 200
    account.open.set()
    assert (await waiting.response()).status == 200


async def test_what_is_not_there_is_not_asked_for_again_and_again(gateway, account, waiting):
    """A request that got nothing since nothing is left is refused."""
    account.account.budget.charge(500, asyncio.get_running_loop().time())
    (limit,) = gateway.shell.plane.routes.limits.by_route.values()
    limit.input.budget.charge(500, gateway.shell.now())
    account.open.set()
    assert (await waiting.response()).status == 429


async def test_a_request_goes_to_the_endpoints_of_now(gateway, account, endpoint, waiting, start_endpoint):
    """Those of its arrival may be gone by the time that it has its tokens."""
    calls = len(endpoint.calls)
    other = await start_endpoint(b"other")
    gateway.serve([other], limits=LIMITS)
    account.open.set()
    assert (await waiting.response()).body == b"other"
    assert len(endpoint.calls) == calls


async def test_a_request_whose_pool_was_deleted_is_told(gateway, account, endpoint, waiting):
    """It is refused like one that comes now, and uses nothing."""
    calls = len(endpoint.calls)
    gateway.shell.use(routing.EMPTY)
    account.open.set()
    refused = await waiting.response()
    assert refused.status == 503
    assert "was deleted" in refused.json["error"]["message"]
    assert len(endpoint.calls) == calls


async def test_a_fault_of_ours_ends_the_request_alone(gateway, account, waiting, monkeypatch, caplog):
    """Nobody but the log is there to see what is raised then: the client must not wait for ever."""

    def broken(*_):
        raise RuntimeError("broken")

    (limit,) = gateway.shell.plane.routes.limits.by_route.values()
    with monkeypatch.context() as patched:
        patched.setattr(gateway.shell.services.limit_sources, "wait", broken)
        patched.setattr(type(limit), "reserve", broken)
        account.open.set()
        assert (await waiting.response()).status == 500
    assert "could not be sent" in caplog.text
    assert (await gateway.ask(prompt(2))).status == 200
