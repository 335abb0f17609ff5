"""A session whose limit is counted elsewhere goes on while tokens are left there."""

import asyncio

import pytest

from headgate import routing
from headgate.flow.limits import LeaseAccount, LocalBudget, Standing
from headgate.quota import sources

MONTH_S = 30 * 86_400
LIMIT = 1_000
LONG_S = 10.0
"""For answers of the account: how soon they come is not what is tested here."""


class Account:
    """Answers as soon as it is open."""

    notice = ""

    def __init__(self) -> None:
        self.account = LeaseAccount(LocalBudget(LIMIT, MONTH_S, 0.0), "one")
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
async def gateway(start_gateway, account, start_sockets):
    limits = routing.TokenLimits(input=LIMIT, unit="month", unit_s=MONTH_S, redis_address="redis:6379")
    sockets = await start_sockets(echoes=False)
    gateway = await start_gateway(sockets, settings={"rate_limits_wait_s": LONG_S}, limits=limits)
    gateway.sockets = sockets
    return gateway


@pytest.fixture
async def waiting(gateway, account, open_session, eventually):
    """The client of a session that has used all that was leased, and waits for more."""
    client = await open_session(gateway)
    account.open.clear()
    account.waiting = 0
    await say(gateway, client, 60)
    await eventually(lambda: account.waiting)
    return client


async def say(gateway, client, tokens):
    """The endpoint ends a response with these input tokens, and the client gets its event."""
    event = b'{"type":"response.done","response":{"usage":{"input_tokens":%d,"output_tokens":1}}}' % tokens
    frame = bytes((0x81, len(event))) + event
    gateway.sockets.peers[0].transport.write(frame)
    assert await client.reader.readexactly(len(frame)) == frame


def session_of(gateway):
    (connection,) = gateway.shell.clients.all
    return connection.exchange


async def test_it_waits_again_for_what_it_used_meanwhile(gateway, account, waiting, eventually):
    """Of what was leased for it, a further response has left nothing."""
    session = session_of(gateway)
    await say(gateway, waiting, 100)
    assert session.life.reservation is None
    account.open.set()
    await eventually(lambda: session.life.reservation is not None)
    assert not session.life.is_over
    await say(gateway, waiting, 200)
    gateway.sockets.peers[0].transport.write(b"\x88\x00")
    gateway.sockets.peers[0].transport.close()
    assert await waiting.rest() == b"\x88\x00"
    await gateway.idle()
    (limit,) = gateway.shell.plane.routes.limits.by_route.values()
    assert limit.accounts()[0].used == 360


async def test_it_ends_once_nothing_is_left_there(gateway, account, waiting):
    """The close frame says so, and the log what it has used."""
    account.account.budget.charge(LIMIT, asyncio.get_running_loop().time())
    await say(gateway, waiting, LIMIT)
    account.open.set()
    close = await waiting.rest()
    assert int.from_bytes(close[2:4], "big") == 1013
    assert close[4:].startswith(b"no input tokens are left of 1000 per month")
    await gateway.idle()
    (limit,) = gateway.shell.plane.routes.limits.by_route.values()
    assert (limit.accounts()[0].used, limit.accounts()[0].refused) == (1060, 1)
    [line] = gateway.log_lines()
    assert " limit=1060/- " in line


async def test_a_client_that_leaves_waits_no_longer(gateway, account, waiting, eventually):
    """Nothing stays reserved for it."""
    waiting.close()
    await gateway.idle()
    account.open.set()
    (limit,) = gateway.shell.plane.routes.limits.by_route.values()
    await eventually(lambda: not gateway.shell.clients.all)
    assert limit.accounts()[0].used == 60
