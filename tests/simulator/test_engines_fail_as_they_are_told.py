"""Failures by rate, by /admin/config and by schedule, as a client and a scraper see them."""

import asyncio
import json

import httpx2
import pytest

from headgate.simulator.server import FailureSettings

TEXT = "/v1/completions"
BODY = {"model": "tiny", "prompt": "Once upon a time", "max_tokens": 8}
STREAM = BODY | {"stream": True, "stream_options": {"include_usage": True}}
EVER = 1_000_000


async def set_failures(server, **settings):
    answer = await server.client.post("/admin/config", json=settings)
    assert answer.status_code == 200, answer.text
    return answer.json()


def always(kind, **settings):
    return FailureSettings(failure_injection_rate=100, failure_types=(kind,), **settings)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("rate_limit", 429),
        ("invalid_api_key", 401),
        ("context_length", 400),
        ("server_error", 503),
        ("invalid_request", 400),
        ("model_not_found", 404),
    ],
)
async def test_requests_are_refused_by_type(serve, kind, status):
    """Each type has its status, in an error object; probes and metrics are left alone."""
    async with serve(failures=always(kind)) as server:
        answer = await server.client.post(TEXT, json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)
        assert (await server.client.get("/health")).status_code == 200
        assert f'failures_total{{what="{kind}"}} 1.0' in (await server.client.get("/metrics")).text


async def test_the_rate_is_a_share_of_requests(serve):
    """Equal seeds fail equal requests; at 40 % some do and some do not."""
    runs = []
    for _ in range(2):
        async with serve(failures=FailureSettings(failure_injection_rate=40)) as server:
            runs.append([(await server.client.post(TEXT, json=BODY)).status_code for _ in range(20)])
    assert runs[0] == runs[1]
    assert 2 <= runs[0].count(200) <= 18


async def test_a_header_forces_an_error(serve):
    """X-Return-Error is a status from 400 to 599."""
    async with serve() as server:
        for value, status in (("502", 502), ("404", 404), ("200", 400), ("many", 400)):
            answer = await server.client.post(TEXT, json=BODY, headers={"x-return-error": value})
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, status)


@pytest.mark.parametrize("body", [BODY, STREAM])
async def test_connections_are_reset(serve, body):
    """In the middle of the answer, with a reset; the server goes on."""
    async with serve(failures=always("reset")) as server:
        with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
            await server.client.post(TEXT, json=body)
        await set_failures(server, failure_injection_rate=0)
        assert (await server.client.post(TEXT, json=body)).status_code == 200


async def test_a_stream_ends_in_the_middle_of_an_event(serve):
    """The body is complete as HTTP has it, and its last event is not."""
    async with serve(failures=always("partial_stream")) as server:
        text = (await server.client.post(TEXT, json=STREAM)).text
        whole = (await server.client.post(TEXT, json=BODY)).text
    assert "[DONE]" not in text
    assert not text.endswith("\n\n")
    for cut in (text.rpartition("data: ")[2], whole):
        with pytest.raises(json.JSONDecodeError):
            json.loads(cut)


@pytest.mark.parametrize("body", [BODY, STREAM])
async def test_json_is_malformed(serve, body):
    """The answer arrives whole, but one of its objects is not closed."""
    async with serve(failures=always("malformed_json")) as server:
        text = (await server.client.post(TEXT, json=body)).text
    objects = [part.removeprefix("data: ") for part in text.strip().split("\n\n")]
    broken = 0
    for each in objects:
        try:
            json.loads(each)
        except json.JSONDecodeError:
            broken += each != "[DONE]"
    assert broken >= 1


@pytest.mark.parametrize("body", [BODY, STREAM])
async def test_usage_is_wrong(serve, body):
    """Tokens were generated, and usage says none."""
    async with serve(failures=always("wrong_usage")) as server:
        text = (await server.client.post(TEXT, json=body)).text
    assert '"completion_tokens":0' in text
    assert '"prompt_tokens":0' in text


async def test_answers_trickle(serve):
    """Sixteen bytes at a time; all of them arrive."""
    failures = always("slow_loris", trickle_s=0.0001)
    async with serve(failures=failures) as server, server.client.stream("POST", TEXT, json=BODY) as response:
        pieces = [piece async for piece in response.aiter_raw()]
    assert len(pieces) > 10
    assert json.loads(b"".join(pieces))["usage"]["completion_tokens"] == 8


async def test_a_stream_stands_still(serve):
    """After two events nothing comes, for as long as that was set to last."""
    failures = always("stall", stall_s=3600)
    async with (
        serve(failures=failures) as server,
        server.client.stream("POST", TEXT, json=STREAM) as response,
    ):
        lines = response.aiter_lines()
        for _ in range(2):
            assert (await anext(lines)).startswith("data: ")
            assert await anext(lines) == ""
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(lines)


async def test_a_late_answer_is_right(serve):
    """`latency` changes nothing but the time."""
    async with serve(failures=always("latency", latency_s=0.001)) as server:
        assert (await server.client.post(TEXT, json=BODY)).json()["usage"]["completion_tokens"] == 8


async def test_settings_are_read_and_changed(serve):
    """A change names some fields, and the others stay."""
    async with serve(failures=FailureSettings(stall_s=7)) as server:
        assert (await server.client.get("/admin/config")).json()["stall_s"] == 7
        changed = await set_failures(server, slowdown=3)
        assert (changed["stall_s"], changed["slowdown"]) == (7, 3)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"stall_s": 1, "speed": 2}, "speed"),
        ({"stall_s": 1, "slowdown": 0}, "slowdown"),
        ({"stall_s": 1, "failure_types": ["boredom"]}, "boredom"),
        ({"stall_s": 1, "faults": [{"kind": "crash"}]}, "at_s"),
        ([1], "object"),
    ],
)
async def test_a_wrong_change_changes_nothing(serve, changes, told):
    """A 400 that names the field, and the right ones beside it are not taken."""
    async with serve() as server:
        answer = await server.client.post("/admin/config", json=changes)
        assert answer.status_code == 400
        assert told in answer.json()["error"]["message"]
        assert (await server.client.get("/admin/config")).json()["stall_s"] == 30


async def test_an_engine_looks_unready(serve):
    """Probes say 503, requests are served."""
    async with serve(failures=FailureSettings(ready=False)) as server:
        for path in ("/health", "/health/ready"):
            assert (await server.client.get(path)).status_code == 503
        assert (await server.client.post(TEXT, json=BODY)).status_code == 200


async def test_metrics_stop_and_metrics_stand_still(serve):
    """`off` cuts the scraper, `stale` shows the figures of when it was set."""
    async with serve() as server:
        await server.client.post(TEXT, json=BODY)
        await set_failures(server, metrics="stale")
        await server.client.post(TEXT, json=BODY)
        count = 'vllm:generation_tokens_total{engine="0",model_name="tiny"}'
        assert f"{count} 8.0" in (await server.client.get("/metrics")).text
        await set_failures(server, metrics="off")
        with pytest.raises(httpx2.TransportError):
            await server.client.get("/metrics")
        await set_failures(server, metrics="on")
        assert f"{count} 16.0" in (await server.client.get("/metrics")).text


async def test_a_crash_cuts_everyone_and_forgets_everything(serve, eventually, slow_engine):
    """In flight, new, probes: all reset. Back again it counts from zero, with a cold cache."""
    async with serve(engine=slow_engine) as server:
        asking = asyncio.ensure_future(server.client.post(TEXT, json=BODY))
        await eventually(lambda: server.live.statistics().running == 1)
        await set_failures(server, faults=[{"kind": "crash", "at_s": 0, "duration_s": EVER}])
        with pytest.raises(httpx2.TransportError):
            await asking
        for path in ("/health", "/metrics", "/v1/models"):
            with pytest.raises(httpx2.TransportError):
                await server.client.get(path)
        await set_failures(server, faults=[])
        assert (await server.client.get("/health")).status_code == 200
        statistics = server.live.statistics()
        assert (statistics.submitted_total, statistics.kv_blocks_used, statistics.kv_blocks_cached) == (
            0,
            0,
            0,
        )
        assert 'finished_reason="abort",model_name="tiny"} 0.0' in (await server.client.get("/metrics")).text


async def test_an_engine_works_again_after_its_crash(serve):
    """Its cache is cold, and requests are answered."""
    long = BODY | {"prompt": list(range(64))}
    async with serve() as server:
        await server.client.post(TEXT, json=long)
        await set_failures(server, faults=[{"kind": "crash", "at_s": 0, "duration_s": EVER}])
        await set_failures(server, faults=[])
        usage = (await server.client.post(TEXT, json=long)).json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0


async def test_a_schedule_names_engines_and_ends_by_itself(serve):
    """Faults of the engine's name alone are its own, and they end without anybody's doing."""
    faults = [
        {"kind": "error", "engines": "b-*", "at_s": 0, "status": 500},
        {"kind": "error", "engines": "a-*", "at_s": 0, "status": 502},
    ]
    async with serve(pod_name="a-1", failures=FailureSettings(faults=faults)) as server:
        assert (await server.client.post(TEXT, json=BODY)).status_code == 502
        await set_failures(server, faults=[faults[0], faults[1] | {"duration_s": 0.05}])
        async with asyncio.timeout(60):
            while (await server.client.post(TEXT, json=BODY)).status_code == 502:
                pass
        assert (await server.client.post(TEXT, json=BODY)).status_code == 200


async def test_slow_and_stalled_engines_say_nothing(serve, eventually, fast):
    """Steps take a multiple of their time, or do not begin for a while; metrics and health are fine."""
    async with serve() as server:
        stall = {"kind": "stall", "at_s": 0, "duration_s": EVER}
        await set_failures(server, faults=[stall])
        asking = asyncio.ensure_future(server.client.post(TEXT, json=BODY))
        await eventually(lambda: server.live.statistics().submitted_total == 1)
        assert server.live.statistics().steps_total == 0
        assert (await server.client.get("/health")).status_code == 200
        await set_failures(server, faults=[])
        assert (await asking).status_code == 200
    costs = {"base_s": 0.001, "per_decode_sequence_s": 0, "per_kv_token_s": 0, "per_prefill_token_s": 0}
    engine = fast(costs=type(fast().costs)(**costs))
    async with serve(engine=engine, failures=FailureSettings(slowdown=10)) as server:
        await server.client.post(TEXT, json=BODY)
        assert server.live.statistics().busy_s_total == pytest.approx(0.08)


async def test_a_stopped_engine_answers_nothing_until_it_goes_on(serve):
    """Neither requests nor probes; all of them are answered then."""
    paths = ("/health", "/metrics", "/v1/models")
    async with serve() as server:
        await set_failures(server, faults=[{"kind": "stop", "at_s": 0, "duration_s": EVER}])
        asking = [asyncio.ensure_future(server.client.get(path)) for path in paths]
        asking.append(asyncio.ensure_future(server.client.post(TEXT, json=BODY)))
        done, _ = await asyncio.wait(asking, timeout=0.3)
        assert not done
        await set_failures(server, faults=[])
        assert [(await each).status_code for each in asking] == [200] * 4


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"status": 429}, "1"),
        ({"status": 429, "retry_after_s": 0}, None),
        ({"status": 503, "retry_after_s": 7}, "7"),
    ],
)
async def test_errors_say_when_to_come_back(serve, fault, told):
    """As the schedule has it."""
    async with serve() as server:
        await set_failures(server, faults=[{"kind": "error", "at_s": 0} | fault])
        answer = await server.client.post(TEXT, json=BODY)
        assert (answer.status_code, answer.headers.get("retry-after")) == (fault["status"], told)


async def test_metrics_fail_by_schedule(serve):
    """A blackout cuts the scraper; stale figures are those of when that began."""
    count = 'vllm:generation_tokens_total{engine="0",model_name="tiny"}'
    async with serve() as server:
        await set_failures(server, faults=[{"kind": "blackout", "at_s": 0}])
        with pytest.raises(httpx2.TransportError):
            await server.client.get("/metrics")
        await set_failures(server, faults=[{"kind": "stale", "at_s": 0}])
        await server.client.post(TEXT, json=BODY)
        assert f"{count} 0.0" in (await server.client.get("/metrics")).text
        await set_failures(server, faults=[])
        assert f"{count} 8.0" in (await server.client.get("/metrics")).text
