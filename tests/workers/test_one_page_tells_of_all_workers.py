"""Metrics and debug pages of several workers are one page, whoever of them ends or hangs."""

import asyncio
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor


async def test_counters_add_up_and_never_go_back(start_gateway, start_traffic, eventually):
    """What a worker counted that was killed, or replaced by an upgrade, stays in the sum."""
    gateway = await start_gateway("--workers", "2")
    traffic = start_traffic(gateway)
    await traffic.more(100)
    await traffic.stop()
    served = traffic.served.total() + len(traffic.failures)

    def requests() -> float:
        return gateway.metric("headgate_gateway_requests_total")

    # A client hears the end of its answer a little earlier than the counter does.
    await eventually(lambda: requests() >= served)
    counted = requests()
    buckets = gateway.metric("headgate_gateway_request_duration_seconds_bucket", le="+Inf")
    assert buckets == gateway.metric("headgate_gateway_request_duration_seconds_count") == counted
    assert gateway.metric("headgate_gateway_pool_endpoints", pool="default/m") == 2
    assert gateway.metric("headgate_gateway_workers", state="ready") == 2
    killed = gateway.workers()[0]
    os.kill(killed, signal.SIGKILL)
    await eventually(lambda: killed not in (now := gateway.workers()) and len(now) == 2)
    assert requests() == counted
    before = set(gateway.workers())
    gateway.signal(signal.SIGUSR2)
    await eventually(lambda: len(new := set(gateway.workers())) == 2 and not new & before)
    await eventually(lambda: gateway.metric("headgate_gateway_workers") == 2)
    assert requests() == counted
    assert gateway.metric("headgate_gateway_worker_restarts_total") == 1


async def test_a_worker_that_hangs_does_not_take_the_pages_with_it(start_gateway, tmp_path, eventually):
    """It is left out and named, its counters are those that it told last, and in the end it is replaced."""
    file = tmp_path / "gateway.yaml"
    file.write_text("workers: 2\naccess_log: off\n")
    gateway = await start_gateway("--config", str(file))
    well, stuck = gateway.workers()
    os.kill(stuck, signal.SIGSTOP)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(16))  # all ask at the same time
    answers = await asyncio.gather(
        *(
            asyncio.to_thread(gateway.get, path)
            for path in ("/debug/config", "/debug/endpoints", "/debug/requests") * 2
        ),
        asyncio.to_thread(gateway.metric, "headgate_gateway_workers", state="ready"),
    )
    assert answers.pop() == 2
    for answer in answers:
        assert answer.status_code == 200
        # On a busy machine the other one may be too slow as well.
        assert any("worker 1 " in each for each in answer.json()["no_answer"])
    assert gateway.get("/readyz").json() == {"message": "ready", "workers": {"ready": 2}}
    file.write_text("workers: {count: 2, hang_s: 10}\nlogging: {access_log: off}\n")
    gateway.signal(signal.SIGHUP)
    await eventually(lambda: f"worker 1 ({stuck}) has hung for 10 s and is killed" in gateway.said())
    await eventually(lambda: stuck not in (now := gateway.workers()) and len(now) == 2)
    assert gateway.workers()[0] == well, "who told less often before that time was shortened does not hang"
    await eventually(lambda: "no_answer" not in gateway.get("/debug/requests").json())


async def test_requests_of_all_workers_are_listed_oldest_first(start_gateway, connect, engine, eventually):
    """Each says which worker serves it; so do the views of endpoints and queues. What is asked is judged."""
    gateway = await start_gateway("--workers", "2", "--clients-max-body-bytes", "100000")
    body = json.dumps({"model": "m", "prompt": "hello", "stream": True}).encode()
    request = b"POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    engine.hold.set()
    try:
        # The kernel spreads connections by their port: of twenty, all go to one worker once in a million.
        for _ in range(20):
            _, writer = await connect(gateway)
            writer.write(request)
        await eventually(lambda: gateway.get("/debug/requests").json()["total"] == 20)
        shown = gateway.get("/debug/requests?limit=15").json()["requests"]
        assert len(shown) == 15
        assert {each["worker"] for each in shown} == {0, 1}
        assert [each["age_s"] for each in shown] == sorted((e["age_s"] for e in shown), reverse=True)
        endpoints = gateway.get("/debug/endpoints").json()["default/m"]
        assert [(each["name"], each["worker"]) for each in endpoints] == [
            (f"default/engine-{number}", worker) for number in (0, 1) for worker in (0, 1)
        ]
        assert sum(each["requests"] for each in endpoints) == 20
        queues = gateway.get("/debug/flow").json()["default/m"]
        assert [each["worker"] for each in queues] == [0, 1]
        assert sum(each["in_flight"] + each["queue"]["requests"] for each in queues) == 20
    finally:
        engine.hold.clear()
    answer = gateway.get("/debug/requests?limit=many")
    assert (answer.status_code, "number from 1" in answer.text) == (400, True)
    assert gateway.get("/debug/nothing").status_code == 404
    answer = gateway.http.post(f"{gateway.admin_url}/debug/nothing", content=b"x" * 200_000)
    assert answer.status_code == 413
    asked = {"content": body, "headers": {"x-tier": "basic"}}
    explained = gateway.http.post(f"{gateway.admin_url}/debug/explain/v1/completions", **asked)
    assert explained.status_code == 200
    assert "default/m" in explained.text
