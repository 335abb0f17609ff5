"""Without a retry left, the next similar requests decide whose fault a rejection was."""

import pytest

PATH = "/v1/chat/completions"
OF_KEYS = [401, 403, 404, 429]


def rejecting(status):
    return lambda call: call.answer(b"no", f"{status} Status")


def serving(call):
    call.answer(b"yes")


def demanding(key):
    """An endpoint that wants this key."""

    def behave(call):
        if call.header("authorization") == key:
            call.answer(b"yes")
        else:
            call.answer(b"no", "401 Unauthorized")

    return behave


def loads(gateway):
    return next(iter(gateway.shell.plane.pools.values())).loads


async def ask(gateway, times, **headers):
    statuses = []
    for _ in range(times):
        statuses.append((await gateway.ask(None, PATH, **headers)).status)
        gateway.move(0.05)
    return statuses


@pytest.mark.parametrize("status", [*OF_KEYS, 500, 501])
async def test_an_endpoint_that_alone_rejects_is_ejected(start_gateway, start_endpoint, status):
    """Of a pool that never retries: a few clients get its rejection, and not half of them."""
    failing = await start_endpoint(behave=rejecting(status))
    well = [await start_endpoint(behave=serving) for _ in range(3)]
    gateway = await start_gateway(failing, *well, settings={"endpoints_retries": 0})
    statuses = await ask(gateway, 400)
    assert statuses.count(status) <= 60
    assert gateway.metric("headgate_gateway_ejections_total", reason=f"status_{status}") >= 1


@pytest.mark.parametrize("policy", ["predicted", "round-robin"])
async def test_a_client_with_a_wrong_key_ejects_nobody(start_gateway, start_endpoint, policy):
    """All endpoints reject it alike."""
    endpoints = [await start_endpoint(behave=demanding("Bearer good")) for _ in range(3)]
    settings = {"endpoints_retries": 0, "scheduling_policy": policy}
    gateway = await start_gateway(*endpoints, settings=settings)
    for _ in range(30):
        assert await ask(gateway, 1, authorization="Bearer good") == [200]
        assert await ask(gateway, 2, authorization="Bearer bad") == [401, 401]
    assert [load.failures for load in loads(gateway)] == [0, 0, 0]


async def test_a_good_key_shows_who_is_at_fault_amid_wrong_ones(start_gateway, start_endpoint):
    """One endpoint demands another key than the others."""
    wrong = await start_endpoint(behave=demanding("Bearer other"))
    right = [await start_endpoint(behave=demanding("Bearer good")) for _ in range(3)]
    gateway = await start_gateway(wrong, *right, settings={"endpoints_retries": 0})
    statuses = []
    for key in range(150):
        statuses += await ask(gateway, 1, authorization="Bearer good")
        assert await ask(gateway, 1, authorization=f"Bearer {key}") == [401]
    assert statuses.count(401) <= 16
    assert loads(gateway)[0].ejection.count
    assert not any(load.failures for load in loads(gateway)[1:])


async def test_one_client_that_breaks_requests_ejects_nobody_while_there_are_retries(
    start_gateway, start_endpoint
):
    """An error 500 of the only endpoint that was asked is no evidence where another could have been."""
    endpoints = [await start_endpoint(behave=rejecting(500)) for _ in range(2)]
    gateway = await start_gateway(*endpoints)
    await ask(gateway, 60)
    assert [load.ejection.count for load in loads(gateway)] == [0, 0]
