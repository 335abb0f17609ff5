"""A worker reports its queue to the others, and applies the share that it gets."""

import asyncio

import pytest

from headgate.flow.sharing import Charge, Part, PoolShare
from headgate.requests.queueing.pending_report import Place


@pytest.fixture
async def start_worker(start_pool, endpoint):
    """Starts a pool of the first of two workers; also what it tells, and how to have it tell that."""

    async def start(**settings):
        pool = await start_pool(**settings)
        pool.gateway.serve([])
        pool.is_heard = True
        told = []
        queues = pool.gateway.shell.queues
        for key in list(queues._queues):
            queues._queues.pop(key).remove(queues.now())

        def send(reports, gone):
            told.append((dict(reports), set(gone)))
            return pool.is_heard

        queues.share(Place(2, 0), send)
        queues._shares.stop()  # it tells when the test says so
        pool.gateway.serve([endpoint])
        assert told == [({}, set())]

        def tell():
            told.clear()
            queues._shares.tell()
            return told[0][0]["default/pool"] if told and told[0][0] else None

        return pool, tell, told

    return start


def share(room=1.0, requests=-1, **more):
    return {"default/pool": PoolShare(all=Part(requests, -1), room=room, **more)}


async def test_what_waits_is_told_and_once_more_when_nothing_does(start_worker, endpoint):
    """With what flows had meanwhile; then nothing, until there is something again."""
    pool, tell, _ = await start_worker(queue_max_requests=10)
    assert tell() is None
    await pool.ask()
    first = await endpoint.call()
    await pool.wait(x_headgate_fairness_id="a", x_llm_d_inference_objective="1")
    report = tell()
    assert (report.all.requests, report.all.came, report.all.max_requests) == (1, 1, 10)
    assert report.bands[1].requests == 1
    assert [(row.flow, row.priority) for row in report.backlog] == [("a", 1)]
    assert report.fullness == 1.0
    first.answer(b"{}")
    await pool.served()
    await pool.gateway.idle()
    report = tell()
    assert (report.all.requests, report.all.came, report.backlog) == (0, 0, [])
    assert [(row.flow, row.priority) for row in report.charges] == [("a", 1)]
    assert report.charges[0].sent > 0
    assert tell() is not None
    assert tell() is None


async def test_a_worker_keeps_to_its_part(start_worker, endpoint):
    """At first an equal one; who is refused is told of what there is for all, and of this worker's part."""
    pool, _, _ = await start_worker(queue_max_requests=3)
    await pool.ask()
    await endpoint.call()
    await pool.wait()
    await pool.wait()
    refused = await pool.gateway.ask()
    assert refused.status == 429
    assert "3 requests, of which this worker may have 2," in refused.json["error"]["message"]
    pool.gateway.shell.queues.take_shares(share(requests=3))
    await pool.wait()
    assert (await pool.gateway.ask()).status == 429


async def test_room_that_is_given_is_used_at_once(start_worker, endpoint):
    """By those that wait, without anything else happening."""
    pool, _, _ = await start_worker(queue_max_in_flight=2)
    await pool.ask("first")
    await pool.wait("second")
    pool.gateway.shell.queues.take_shares(share(room=1.0))
    assert [(await endpoint.call()).json["prompt"] for _ in range(2)] == ["first", "second"]


async def test_what_runs_is_told_while_others_wait(start_worker, endpoint):
    """Although nothing waits here: they have what room is left."""
    pool, tell, _ = await start_worker(queue_max_in_flight=4)
    await pool.ask()
    await endpoint.call()
    assert tell() is None
    pool.gateway.shell.queues.take_shares(share(room=0.5))
    assert tell().fullness == 0.25
    assert tell() is None


async def test_a_share_that_was_told_is_confirmed(start_worker, endpoint):
    """Although nothing waits or runs here: until then, others may not have what it gave up."""
    pool, tell, _ = await start_worker(queue_max_in_flight=4)
    assert tell() is None
    pool.gateway.shell.queues.take_shares(share(room=0.1, turn=7))
    report = tell()
    assert (report.turn, report.room, report.fullness) == (7, pytest.approx(0.1), 0.0)
    assert tell() is None
    pool.gateway.shell.queues.take_shares(share(room=0.1, turn=8))
    assert tell() is None, "the same share needs no word"


async def test_a_pool_is_as_full_as_all_workers_make_it(start_worker, endpoint):
    """Whatever this worker's part of the room is."""
    pool, _, _ = await start_worker(queue_max_in_flight=4)
    await pool.ask()
    await endpoint.call()
    pool.gateway.shell.queues.take_shares(share(room=0.25, elsewhere=0.5))
    assert pool.gateway.metric("headgate_gateway_flow_control_pool_saturation", stage="all") == 0.75


async def test_flows_stand_by_what_they_had_elsewhere(start_worker, endpoint):
    """At once, for those that wait."""
    pool, _, _ = await start_worker(queue_fairness="windowed-usage")
    await pool.ask("first")
    await endpoint.call()
    for flow in ("a", "b"):
        await pool.wait(flow, x_headgate_fairness_id=flow)
    charge = Charge(priority=0, flow="a", prompt=1000, requests=1)
    pool.gateway.shell.queues.take_shares(share(room=0.5, charges=[charge]))
    endpoint.calls[0].answer(b"{}")
    assert [await pool.served() for _ in range(2)] == ["b", "a"]


async def test_a_successor_of_the_supervisor_is_told_everything(start_worker, endpoint):
    """What waits, though nothing of it is new."""
    pool, tell, told = await start_worker()
    await pool.ask()
    await endpoint.call()
    await pool.wait()
    assert tell() is not None
    told.clear()
    pool.gateway.shell.queues.share_anew()
    assert told[0] == ({}, set())
    assert told[1][0]["default/pool"].all.requests == 1


async def test_what_was_not_heard_is_told_again(start_worker, endpoint):
    """As a supervisor that reads nothing for a while would take what waited before to wait for good."""
    pool, tell, _ = await start_worker()
    await pool.ask()
    first = await endpoint.call()
    await pool.wait(x_headgate_fairness_id="a")
    assert tell().all.requests == 1
    pool.is_heard = False
    first.answer(b"{}")
    await pool.served()
    await pool.gateway.idle()
    missed = tell()
    assert missed.all.requests == 0
    assert missed.charges
    pool.is_heard = True
    assert tell() == missed


async def test_a_bound_that_has_changed_is_told(start_worker, endpoint):
    """Though nothing waits: what this worker told before is what others would go by."""
    pool, tell, _ = await start_worker(queue_max_requests=100)
    await pool.ask()
    await endpoint.call()
    assert tell() is None
    shell = pool.gateway.shell
    shell.change(shell.settings.replace(queue_max_requests=10))
    assert tell().all.max_requests == 10
    assert tell() is None


async def test_pools_that_are_gone_are_told(start_worker, endpoint):
    """So that nobody keeps a part of theirs."""
    pool, tell, told = await start_worker()
    await pool.ask()
    await endpoint.call()
    await pool.wait()
    tell()
    shell = pool.gateway.shell
    shell.plane.pools = {}
    shell.queues.use()
    tell()
    assert told == [({}, {"default/pool"})]
    await asyncio.sleep(0)


async def test_it_is_told_again_and_again(start_worker, endpoint, eventually):
    """By a timer, which ends with the queues."""
    pool, _, told = await start_worker()
    await pool.ask()
    await endpoint.call()
    await pool.wait()
    told.clear()
    pool.gateway.shell.queues._shares._tick()
    await eventually(lambda: len(told) >= 2)
