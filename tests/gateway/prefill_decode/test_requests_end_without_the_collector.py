"""However a request with two endpoints ends, it is freed immediately, without a garbage collection."""

import asyncio

import pytest

TIMES = 3


async def _all_left(gateway, eventually) -> None:
    await eventually(
        lambda: not gateway.shell.clients.all and not gateway.shell.services.background.left_behind
    )
    await gateway.idle()
    await asyncio.sleep(0.002)


@pytest.mark.parametrize("connector", ["nixl", "sglang"])
async def test_request_is_served(split, chat, handed_over, eventually, garbage, connector):
    """One after the other, or both at once."""
    some = await split(connector)
    for _ in range(TIMES):
        client = await some.gateway.connect()
        client.post(chat())
        handed_over(await some.prefill[0].call())
        (await some.decode[0].call()).answer(b"{}")
        assert (await client.response()).status == 200
        client.close()
        await _all_left(some.gateway, eventually)
    assert not garbage()


@pytest.mark.parametrize("is_prefilled", [True, False])
async def test_client_leaves(split, chat, handed_over, eventually, garbage, is_prefilled):
    """While its prompt is prefilled, or while the answer is generated."""
    some = await split("nixl")
    for _ in range(TIMES):
        client = await some.gateway.connect()
        client.post(chat())
        prefill = await some.prefill[0].call()
        if is_prefilled:
            handed_over(prefill)
            await some.decode[0].call()
        client.close()
        await _all_left(some.gateway, eventually)
    assert not garbage()


@pytest.mark.parametrize("way", ["close", "reset"])
async def test_prefill_fails(split, chat, eventually, garbage, way):
    """Its endpoint closes the connection, and there is no other."""
    some = await split("nixl", settings={"endpoints_ejection_failures": 0, "endpoints_retries": 0})
    for _ in range(TIMES):
        client = await some.gateway.connect()
        client.post(chat())
        getattr(await some.prefill[0].call(), way)()
        assert (await client.response()).status == 502
        client.close()
        await _all_left(some.gateway, eventually)
    assert not garbage()
