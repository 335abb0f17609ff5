"""A client gets the share of one client whatever it claims, and the number of flows is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.flow.queue import BandSettings, FlowSettings
from headgate.requests.queueing.flow_names import KEYS_OF_ADDRESS, MAX_FLOWS, SHARED_FLOWS, FlowNames
from headgate.requests.queueing.hints import QueueHints


async def flows(pool) -> set[str]:
    [shown] = (await pool.page("/debug/flow"))["default/pool"]
    return {flow["name"] for band in shown["queue"]["bands"] for flow in band["flows"]}


async def test_fairness_ids_of_anybody_do_not_count(start_pool):
    """Ten ids of one client are one flow: its address."""
    pool = await start_pool(queue_fairness_ids_from="trusted")
    await pool.ask("runs")
    for number in range(10):
        await pool.wait(x_gateway_inference_fairness_id=f"made-up-{number}")
    assert await flows(pool) == {"127.0.0.1"}


async def test_those_of_a_trusted_proxy_do(start_pool):
    """Without any setting but who is trusted."""
    pool = await start_pool(queue_fairness_ids_from="trusted", clients_trusted_networks=("127.0.0.1",))
    await pool.ask("runs")
    await pool.wait(x_gateway_inference_fairness_id="team-a")
    await pool.wait(x_forwarded_for="198.51.100.7")
    assert await flows(pool) == {"team-a", "198.51.100.7"}


async def test_keys_of_one_address_are_few_flows(start_pool):
    """One that sends another key with each request has the flows of a few, and no key is shown."""
    pool = await start_pool(queue_fairness_ids_from="trusted")
    await pool.ask("runs")
    for number in range(KEYS_OF_ADDRESS + 20):
        await pool.wait(authorization=f"Bearer sk-secret-{number}")
    found = await flows(pool)
    assert len(found) == KEYS_OF_ADDRESS + 1
    assert "127.0.0.1" in found
    assert "secret" not in str(await pool.page("/debug/flow"))
    assert "secret" not in str(await pool.page("/debug/requests"))


async def test_a_flood_of_keys_does_not_keep_others_waiting(start_pool):
    """Whoever comes from elsewhere behind 200 of them has its turn after one round, not after all of them."""
    pool = await start_pool(
        queue_fairness_ids_from="trusted", clients_trusted_networks=("127.0.0.1",), queue_max_requests=1000
    )
    await pool.ask("runs")
    flood = {"x_forwarded_for": "198.51.100.7"}
    for number in range(200):
        await pool.wait("flood " + "x" * 4000, authorization=f"Bearer {number}", **flood)
    await pool.wait("victim " + "x" * 4000, x_forwarded_for="203.0.113.9", authorization="Bearer mine")
    before = 0
    assert await pool.served() == "runs"
    while not (await pool.served()).startswith("victim"):
        before += 1
    assert before <= 2 * (KEYS_OF_ADDRESS + 2)


async def test_fairness_by_usage_goes_by_addresses(start_pool):
    """There a key that nobody knows has used nothing, and would be first each time."""
    pool = await start_pool(queue_fairness_ids_from="trusted", queue_fairness="windowed-usage")
    await pool.ask("runs")
    for number in range(3):
        await pool.wait(x_api_key=f"key-{number}")
    assert await flows(pool) == {"127.0.0.1"}


async def test_names_are_forgotten_with_their_requests(start_pool, eventually):
    """However requests end: served, or left by their clients."""
    pool = await start_pool(queue_fairness_ids_from="trusted")
    await pool.ask("runs")
    clients = [await pool.wait(x_api_key=f"key-{number}") for number in range(4)]
    pool.queue.names.validate()
    assert pool.queue.names.statistics() == {"flows": 4, "keys": 4, "addresses": 1}
    for client in clients[:2]:
        client.close()
    await eventually(lambda: pool.queue.held == 2)
    for _ in range(3):
        await pool.served()
    for client in clients[2:]:
        await client.response()
    await pool.gateway.idle()
    assert pool.queue.names.statistics() == {"flows": 0, "keys": 0, "addresses": 0}


def test_further_flows_share_some_by_their_hash():
    """Those that have waiting requests, and those that have a weight, keep their own."""
    names = FlowNames(FlowSettings(weights={"gold": 2.0}))
    for number in range(5 * MAX_FLOWS):
        asked = QueueHints(flow=f"tenant-{number}")
        names.increment(names.of(asked), asked)
    names.validate()
    assert names.statistics()["flows"] == MAX_FLOWS + SHARED_FLOWS
    assert names.of(QueueHints(flow="tenant-1")) == "tenant-1"
    assert names.of(QueueHints(flow="gold")) == "gold"
    assert names.of(QueueHints(flow="tenant-new")) == names.of(QueueHints(flow="tenant-new"))
    assert names.of(QueueHints(flow="tenant-new")).startswith("shared-")


STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 2), st.booleans()), max_size=120)


@pytest.mark.parametrize("fairness", ["deficit-round-robin", "windowed-usage"])
@given(STEPS)
def test_the_books_are_in_order(fairness, steps):
    """Whatever comes and goes, the counts are those of what waits."""
    names = FlowNames(FlowSettings(band=BandSettings(fairness=fairness)))
    waiting = []
    for comes, key, address, has_key in steps:
        if comes or not waiting:
            asked = (
                QueueHints(flow=f"key-{key}", address=f"{address}")
                if has_key
                else QueueHints(flow=f"{address}")
            )
            waiting.append(names.of(asked))
            names.increment(waiting[-1], asked)
        else:
            names.decrement(waiting.pop(key % len(waiting)))
        names.validate()
    for name in waiting:
        names.decrement(name)
    assert not any(names.statistics().values())
