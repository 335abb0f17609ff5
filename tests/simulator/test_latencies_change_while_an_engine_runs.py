import pytest

TTFT = 'vllm:time_to_first_token_seconds_sum{engine="0",model_name="tiny"}'
BETWEEN = 'vllm:inter_token_latency_seconds_sum{engine="0",model_name="tiny"}'
BODY = {"model": "tiny", "prompt": "a", "max_tokens": 2}


async def configure(server, **changes):
    named = {name.replace("_", "-"): value for name, value in changes.items()}
    return await server.client.post("/admin/config", json=named)


async def times(server):
    """Seconds to the first token and to the second of one request, by the model's clock."""
    before = await read(server)
    assert (await server.client.post("/v1/completions", json=BODY)).status_code == 200
    after = await read(server)
    return tuple(round(late - early, 9) for early, late in zip(before, after, strict=True))


async def read(server):
    page = (await server.client.get("/metrics")).text.splitlines()
    lines = dict(line.rsplit(" ", 1) for line in page)
    return float(lines[TTFT]), float(lines[BETWEEN])


async def test_latencies_can_be_changed(serve):
    """Each by its name, as text or in nanoseconds; what was said before stays, and null is the profile's."""
    async with serve() as server:
        assert await times(server) == (0, 0)
        await configure(server, time_to_first_token="20ms", inter_token_latency=10_000_000)
        assert await times(server) == (0.02, 0.01)
        await configure(server, inter_token_latency="5ms")
        assert await times(server) == (0.02, 0.005)
        told = (await server.client.get("/admin/config")).json()
        await configure(server, time_to_first_token=None, inter_token_latency=None)
        assert await times(server) == (0, 0)
    assert (told["time_to_first_token"], told["inter_token_latency"]) == ("20ms", "5ms")


async def test_a_time_per_token_can_take_the_place_of_a_constant_one(serve):
    """One token of prompt is the overhead and a token's time."""
    per_token = {"prefill_overhead": "10ms", "prefill_time_per_token": "2ms"}
    async with serve() as server:
        await configure(server, time_to_first_token="20ms", **per_token)
        constant = await times(server)
        await configure(server, latency_calculator="per-token")
        by_token = await times(server)
    assert (constant[0], by_token[0]) == (0.02, 0.012)


async def test_an_engine_that_begins_anew_keeps_them(serve):
    """A crash changes no setting."""
    async with serve() as server:
        await configure(server, time_to_first_token="20ms")
        server.live.restart()
        assert (await times(server))[0] == 0.02


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"time_to_first_token": "soon"}, "time-to-first-token: "),
        ({"time_to_first_token": "-1s"}, "time-to-first-token: must not be negative"),
        ({"time_factor_under_load": 0.5}, "time-factor-under-load: must be 1 to 1e6"),
        ({"inter_token_latency": "10ms", "inter_token_latency_std_dev": "4ms"}, "at most 30 %"),
        ({"latency_calculator": "linear"}, "latency_calculator"),
    ],
)
async def test_latencies_that_cannot_be_change_nothing(serve, changes, told):
    """Nor does what came with them."""
    async with serve() as server:
        answer = await configure(server, failure_injection_rate=100, **changes)
        after = (await server.client.get("/admin/config")).json()
    assert answer.status_code == 400
    assert told in answer.json()["error"]["message"]
    assert after["failure_injection_rate"] == 0
