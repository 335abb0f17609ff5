"""A Redis whose ACL forbids what counting needs: gateways say what, and how to allow it, and go on."""

import logging

import pytest

MONTH_S = 30 * 86_400
WHOLE = "~* +@all"


@pytest.fixture
def allow(client):
    """Sets what the user `gateway` may do."""

    async def allow(rules: str) -> None:
        await client.execute_command("ACL", "SETUSER", "gateway", "reset", "on", ">secret", *rules.split())
        await client.execute_command("ACL", "LOG", "RESET")

    return allow


@pytest.fixture
def gateway(limiter):
    return lambda: limiter(username="gateway", password="secret")


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("~* +@all -evalsha", "the command EVALSHA"),
        ("~* +@all -eval", "the command EVAL "),
        ("~* +@all -@scripting", "the command EVALSHA"),
        ("~* +@all -time", "the command TIME"),
        ("~* +@all -hset", "the command HSET"),
        ("~* +@all -expire", "the command EXPIRE"),
    ],
)
async def test_a_command_that_is_forbidden_is_named(gateway, client, allow, eventually, caplog, rules, told):
    """Redis counts nothing then; the gateway goes by its share, and returns by itself once it may."""
    await client.script_flush()
    await allow(rules)
    one = gateway()
    budget = one.budget(1_000, MONTH_S)
    assert await one.request(budget, 100)
    assert told in one.source.trouble
    assert "ACL SETUSER gateway ~kthena:ratelimit:*" in one.source.trouble
    assert one.source.is_denied
    assert budget.is_parted
    assert any(told in each.getMessage() for each in caplog.records)
    await allow(WHOLE)
    await eventually(lambda: not one.source.trouble)
    assert not one.source.is_denied


async def test_a_key_that_is_forbidden_is_named(gateway, allow, eventually, caplog):
    """The limits whose keys are allowed go on being counted."""
    await allow("~kthena:ratelimit:m:* ~headgate:* +@all")
    one = gateway()
    good, bad = one.budget(1_000, MONTH_S), one.budget(1_000, MONTH_S, account="kthena:ratelimit:other:input")
    assert await one.request(good, 100)
    assert await one.request(bad, 100)
    assert bad.is_parted
    assert not good.is_parted
    assert not one.source.trouble
    assert one.source.is_denied
    assert "the key kthena:ratelimit:other:input" in one.source.refusal({"kthena:ratelimit:other:input"})
    assert not one.source.refusal({"kthena:ratelimit:m:input"})
    assert any("kthena:ratelimit:other:input" in each.getMessage() for each in caplog.records)
    exchanges = one.source.exchanges.count
    good.change(1_000, MONTH_S, 0.0)
    await eventually(lambda: one.source.exchanges.count > exchanges)
    assert one.source.is_denied, "though the last exchange was about what is allowed"
    await allow(WHOLE)
    bad.change(1_000, MONTH_S, 0.0)
    await eventually(lambda: not bad.is_parted)
    assert not one.source.is_denied


async def test_gateways_that_may_not_be_counted_count_together_all_the_same(
    gateway, allow, client, eventually, caplog
):
    """Where only the keys of Kthena are allowed, it is said that gateways do not know of each other."""
    await allow("~kthena:ratelimit:* +@all")
    one, other = gateway(), gateway()
    budgets = [each.budget(1_000, MONTH_S) for each in (one, other)]
    assert await one.request(budgets[0], 600)
    assert not await other.request(budgets[1], 600)
    await eventually(lambda: one.source.notice)
    assert "the key headgate:ratelimit:" in one.source.notice
    assert one.source.is_denied
    assert not one.source.trouble
    assert sum("headgate:ratelimit:" in each.getMessage() for each in caplog.records) <= 2


async def test_what_is_said_to_suffice_suffices(gateway, allow, client, eventually, caplog):
    """Nothing else is needed than what is told to be."""
    caplog.set_level(logging.WARNING)
    await client.script_flush()
    await allow("-@all")
    one = gateway()
    budget = one.budget(1_000, MONTH_S)
    assert await one.request(budget, 100)
    await allow(one.source.trouble.partition("ACL SETUSER gateway ")[2])
    await eventually(lambda: not one.source.trouble)
    assert await one.request(budget, 100)
    assert not one.source.notice
    assert not budget.is_parted
