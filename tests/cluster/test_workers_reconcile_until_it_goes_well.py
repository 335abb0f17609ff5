"""Workers on the event loop."""

import asyncio

from headgate.cluster import Backoff, Conflict, WorkQueue, run_workers


async def test_a_failed_key_comes_back_and_others_go_on(kit):
    """A conflict and a bug are retried after their backoff; the worker survives both."""
    queue = WorkQueue(Backoff(base_s=0.002, cap_s=0.01))
    tried = []

    async def reconcile(key):
        tried.append(key)
        if tried.count("a") == 1 and key == "a":
            raise Conflict("changed meanwhile", status_code=409)
        if tried.count("a") == 2 and key == "a":
            raise ZeroDivisionError

    queue.add("a")
    queue.add("b")
    async with kit.running(run_workers(queue, reconcile, workers=1)):
        await kit.eventually(lambda: tried.count("a") == 3)
    assert tried[:2] == ["a", "b"]
    assert queue.statistics().failing == 0
    assert queue.statistics().retries == 2


async def test_one_key_is_never_in_two_hands(kit):
    """With many workers and many requests for the same keys, each key has one worker at a time."""
    queue = WorkQueue()
    active, most, finished = {"a": 0, "b": 0}, 0, 0

    async def reconcile(key):
        nonlocal most, finished
        active[key] += 1
        most = max(most, active[key])
        await asyncio.sleep(0)
        active[key] -= 1
        finished += 1

    async with kit.running(run_workers(queue, reconcile, workers=5)):
        for _ in range(50):
            queue.add("a")
            queue.add("b")
            await asyncio.sleep(0)
        await kit.eventually(lambda: queue.statistics().waiting + queue.statistics().processing == 0)
    assert most == 1
    assert 4 <= finished <= 100


async def test_a_reconcile_can_ask_to_be_called_again(kit):
    """The seconds that it returns are when the key comes back."""
    queue = WorkQueue()
    calls = 0

    async def reconcile(key):
        nonlocal calls
        calls += 1
        return 0.001 if calls < 3 else None

    queue.add("a")
    async with kit.running(run_workers(queue, reconcile)):
        await kit.eventually(lambda: calls == 3)
