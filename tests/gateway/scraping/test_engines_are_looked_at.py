"""The gateway reads the pages of engines, and knows how old each reading is."""

import asyncio
import logging

import msgspec
import pytest

from headgate import engines, routing
from headgate.gateway.in_flight import endpoints as endpoints_page
from headgate.observe import pace
from headgate.observe.looks import MAX_AT_ONCE


def load_of(gateway, place=0):
    (pool,) = gateway.shell.plane.pools.values()
    return pool.loads[place]


def shown(gateway, place=0):
    return endpoints_page(gateway.shell)["default/pool"][place]


async def test_a_reading_has_what_the_pages_say(start_endpoint, start_looking, engine, eventually):
    """The metrics of the engine, and the models that it answers to."""
    engine.page = (
        "vllm:num_requests_waiting 0\nvllm:num_requests_running 3\nvllm:kv_cache_usage_perc 0.25\n"
        'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1\n'
        'vllm:lora_requests_info{max_lora="4",running_lora_adapters="a",waiting_lora_adapters="b"} 1\n'
    )
    engine.models = ["base", "a", "b"]
    gateway = await start_looking(await start_endpoint(behave=engine))
    await eventually(lambda: load_of(gateway).reading)
    reading = load_of(gateway).reading
    assert (reading.waiting, reading.running, reading.kv_usage) == (0, 3, 0.25)
    assert (reading.block_tokens, reading.blocks) == (16, 1000)
    assert (reading.adapters_running, reading.adapters_waiting, reading.max_adapters) == ({"a"}, {"b"}, 4)
    assert reading.models == {"base", "a", "b"}
    page = shown(gateway)
    assert page["engine"] == "vLLM"
    assert page["reading"]["state"] == "fresh"
    assert page["reading"]["models"] == ["a", "b", "base"]
    assert 0 <= page["reading"]["age_s"] < 10
    assert gateway.shell.scraper.looks.pages["read"] > 0


async def test_looks_go_on_over_one_connection(start_endpoint, start_looking, engine, looked):
    """A new connection for each would cost the engine more than the page."""
    endpoint = await start_endpoint(behave=engine)
    await start_looking(endpoint)
    await looked(engine, 10)
    assert len(endpoint.connections) == 1
    assert engine.asked.count("/v1/models") == 1


async def test_a_connection_that_was_closed_meanwhile_is_replaced(
    start_endpoint, start_looking, engine, looked
):
    """Engines close what has been idle for some seconds, which is no failure."""
    endpoint = await start_endpoint(behave=engine)
    gateway = await start_looking(endpoint)
    for _ in range(3):
        await looked(engine)
        endpoint.connections[-1].transport.close()
    await looked(engine)
    assert gateway.shell.scraper.looks.pages["failed"] == 0


async def test_an_engine_that_has_gone_is_not_believed(
    start_endpoint, start_looking, engine, eventually, caplog
):
    """What it said last is shown with its age, but nobody goes by it; the log tells it once."""
    caplog.set_level(logging.INFO)
    endpoint = await start_endpoint(behave=engine)
    gateway = await start_looking(endpoint, settings={"engine_metrics_stale_s": 600})
    await eventually(lambda: load_of(gateway).reading)
    await endpoint.stop()
    await eventually(lambda: gateway.shell.scraper.looks.pages["failed"])
    assert load_of(gateway).reading
    gateway.move(601)
    await eventually(lambda: load_of(gateway).reading is None)
    assert shown(gateway)["reading"]["state"] == "stale"
    assert shown(gateway)["reading"]["problem"] == "it cannot be connected to"
    assert shown(gateway)["reading"]["running"] == 0
    await endpoint.start()
    await eventually(lambda: load_of(gateway).reading)
    told = [record.getMessage() for record in caplog.records if "metrics of" in record.getMessage()]
    assert [line.partition("are ")[2].partition(":")[0] for line in told] == ["read", "stale", "read"]


@pytest.mark.parametrize(
    "answer", ["hangs", "503", "page is longer than it may be", "too many lines", "no HTTP", "cut off"]
)
async def test_looks_that_fail_are_no_news(start_endpoint, start_looking, engine, eventually, answer):
    """However they fail: what was known grows old, and then is not known."""
    wrong = False

    def behave(call):
        if not wrong or call.target == "/v1/models":
            engine(call)
        elif answer == "503":
            call.answer(b"vllm:num_requests_waiting 9\n", "503 Service Unavailable")
        elif answer == "page is longer than it may be":
            call.answer(b"#" * (5 << 20))
        elif answer == "too many lines":
            call.answer(b"".join(b'vllm:num_requests_waiting{engine="%d"} 1\n' % n for n in range(3000)))
        elif answer == "no HTTP":
            call.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")
        elif answer == "cut off":
            call.write(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nvllm:num_requests_waiting 9\n")
            call.close()

    gateway = await start_looking(
        await start_endpoint(behave=behave),
        settings={"engine_metrics_timeout_s": 0.2, "engine_metrics_stale_s": 600},
    )
    await eventually(lambda: load_of(gateway).reading)
    before, wrong = gateway.shell.scraper.looks.pages["failed"], True
    await eventually(lambda: gateway.shell.scraper.looks.pages["failed"] > before)
    gateway.move(601)
    await eventually(lambda: load_of(gateway).reading is None)
    assert shown(gateway)["reading"]["state"] == "stale"
    assert shown(gateway)["reading"]["problem"].startswith("it ")


@pytest.mark.parametrize(
    ("page", "status", "problem"),
    [
        ("", "404 Not Found", "it answers 404 to GET /metrics"),
        ("go_goroutines 5\n", "200 OK", "its page has no metrics of vLLM"),
        ("<html>welcome</html>", "200 OK", "its page has no metrics of vLLM"),
    ],
)
async def test_an_engine_without_page_has_models_all_the_same(
    start_endpoint, start_looking, engine, eventually, page, status, problem
):
    """It is told from one that fails: nothing has to be mended."""
    engine.page, engine.status = page, status
    gateway = await start_looking(await start_endpoint(behave=engine))
    await eventually(lambda: load_of(gateway).reading)
    reading = load_of(gateway).reading
    assert (reading.models, reading.waiting) == ({"base"}, None)
    assert shown(gateway)["reading"]["state"] == "unsupported"
    assert shown(gateway)["reading"]["problem"] == problem


async def test_the_label_of_a_pod_says_which_names_are_looked_for(
    start_endpoint, start_looking, engine, eventually
):
    """One pool may have engines of several kinds; of one that is not known, no page is asked for."""
    engine.page = "sglang:num_queue_reqs 4\nvllm:num_requests_waiting 0\n"
    endpoints = [await start_endpoint(behave=engine) for _ in range(3)]
    gateway = await start_looking(*endpoints)
    pool = next(iter(gateway.shell.plane.snapshot.pools.values()))
    labels = {
        pool.endpoints[1]: {"llm-d.ai/engine-type": "sglang"},
        pool.endpoints[2]: {"llm-d.ai/engine-type": "my-own"},
    }
    gateway.serve(endpoints, labels=labels)
    await eventually(lambda: all(load_of(gateway, place).reading for place in range(3)))
    assert [load_of(gateway, place).reading.waiting for place in range(3)] == [0, 4, None]
    assert shown(gateway, 2)["engine"] == "OpenAI"
    assert {call.target for call in endpoints[2].calls} == {"/v1/models"}


async def test_a_page_elsewhere_is_asked_for_there(start_endpoint, start_looking, engine, eventually):
    """At another port and path: those of a Pod's annotations, else those of the settings."""
    serving, side = await start_endpoint(behave=engine), await start_endpoint(behave=engine)
    gateway = await start_looking(serving, settings={"engine_metrics_port": side.port})
    await eventually(lambda: load_of(gateway).reading)
    assert {call.target for call in side.calls} == {"/metrics"}
    assert {call.target for call in serving.calls} == {"/v1/models"}
    pool = next(iter(gateway.shell.plane.snapshot.pools.values()))
    page = routing.MetricsPage(port=serving.port, path="/stats")
    snapshot = msgspec.structs.replace(
        gateway.shell.plane.snapshot,
        pools={pool.key: msgspec.structs.replace(pool, metrics_pages={pool.endpoints[0]: page})},
    )
    gateway.shell.use(snapshot)
    await eventually(lambda: any(call.target == "/stats" for call in serving.calls))


async def test_an_engine_that_has_started_anew_has_an_empty_cache(
    start_endpoint, start_looking, engine, eventually, looked
):
    """What was believed of it is forgotten, its models are asked for again, and its ejection ends."""
    engine.page = "vllm:num_requests_running 0\nprocess_start_time_seconds 1000\n"
    gateway = await start_looking(await start_endpoint(behave=engine))
    await eventually(lambda: load_of(gateway).reading)
    gateway.shell.plane.prefixes.add([1, 2, 3], load_of(gateway), gateway.shell.now())
    assert gateway.shell.plane.prefixes.matched([1, 2, 3], [load_of(gateway)]) == [3]
    await looked(engine)
    assert gateway.shell.plane.prefixes.matched([1, 2, 3], [load_of(gateway)]) == [3]
    for _ in range(5):
        load_of(gateway).failed(gateway.shell.now())
    engine.page = "vllm:num_requests_running 0\nprocess_start_time_seconds 2000\n"
    await eventually(lambda: gateway.shell.scraper.looks.restarts)
    assert load_of(gateway).ejection.until <= gateway.shell.now()
    assert gateway.shell.plane.prefixes.matched([1, 2, 3], [load_of(gateway)]) == [0]
    await eventually(lambda: engine.asked.count("/v1/models") == 2)


async def test_endpoints_that_leave_are_looked_at_no_more(start_endpoint, start_looking, engine, eventually):
    """Nor are any once the settings say so; the connection to them is closed."""
    endpoint = await start_endpoint(behave=engine)
    gateway = await start_looking(endpoint)
    await eventually(lambda: load_of(gateway).reading)
    load = load_of(gateway)
    gateway.serve([])
    await eventually(lambda: all(connection.lost.done() for connection in endpoint.connections))
    assert load.reading is None
    gateway.serve([endpoint])
    await eventually(lambda: load_of(gateway).reading)
    settings = gateway.shell.settings
    gateway.shell.change(settings.replace(engine_metrics_enabled=False))
    await eventually(lambda: load_of(gateway).reading is None)
    assert shown(gateway)["reading"] == {"state": "off"}


async def test_engines_that_hang_do_not_keep_others_from_being_looked_at(
    start_endpoint, start_looking, engine, eventually, looked
):
    """Those that fail are looked at less and less often."""
    silent = await start_endpoint(behave=lambda call: None)
    well = await start_endpoint(behave=engine)
    gateway = await start_looking(well, *[silent] * 100, settings={"engine_metrics_timeout_s": 0.2})
    await eventually(lambda: gateway.shell.scraper.looks.pages["failed"] >= 100)
    await looked(engine)
    await eventually(lambda: load_of(gateway).reading)


async def test_looks_at_a_time_are_bounded(start_endpoint, start_looking, eventually):
    """However many engines there are, and however long they take."""
    silent = await start_endpoint(behave=lambda call: None)
    await start_looking(*[silent] * 100, settings={"engine_metrics_timeout_s": 60})
    await eventually(lambda: len(silent.calls) >= MAX_AT_ONCE)
    await asyncio.sleep(0.1)
    assert len(silent.calls) == MAX_AT_ONCE


async def test_looks_in_a_second_are_bounded(start_endpoint, start_looking, engine, looked):
    """More engines than turns: each is looked at in its turn."""
    endpoint = await start_endpoint(behave=engine)
    gateway = await start_looking(*[endpoint] * 30, settings={"engine_metrics_max_per_s": 100})
    await looked(engine, 1)
    began, before = gateway.shell.now(), gateway.shell.scraper.looks.pages["read"]
    await looked(engine, 60)
    count = gateway.shell.scraper.looks.pages["read"] - before
    assert count <= (gateway.shell.now() - began) * 100 + 2
    assert all(load_of(gateway, place).reading for place in range(30))


async def test_workers_share_the_looks(start_endpoint, start_looking, engine):
    """All of them together read no more pages in a second than one alone, and take no more of engines."""
    endpoint = await start_endpoint(behave=engine)
    gateway = await start_looking(
        *[endpoint] * 8, settings={"workers_count": 4, "engine_metrics_max_per_s": 100}
    )
    scraper = gateway.shell.scraper
    assert scraper.looks.pace.lookers == 4
    assert scraper.looks.pace.round_s == pytest.approx(8 * 4 / 100)
    scraper.looks.take_turn()
    assert scraper.looks.take_turn() > 2 / 100


async def test_pages_and_lists_are_read_one_at_a_time(start_endpoint, start_looking, monkeypatch):
    """Of engines whose pages take long, one is read in a turn of the event loop."""
    for share in ("READER_SHARE", "ENGINE_SHARE"):
        monkeypatch.setattr(pace, share, 1.0)  # they are read again at once, however long it takes
    hostile = [Hostile() for _ in range(6)]
    loop = asyncio.get_running_loop()
    turn, reads, enough = 0, [], asyncio.Event()

    def end_turn():
        nonlocal turn
        turn += 1

    def noted(read):
        def wrapped(body, *names):
            reads.append(turn)
            loop.call_soon(end_turn)
            if len(reads) == 30:
                enough.set()
            return read(body, *names)

        return wrapped

    monkeypatch.setattr(engines, "read", noted(engines.read))
    monkeypatch.setattr(engines, "read_models", noted(engines.read_models))
    await start_looking(*[await start_endpoint(behave=each) for each in hostile])
    async with asyncio.timeout(200):
        await enough.wait()
    assert len(set(reads)) == len(reads)


class Hostile:
    """An engine whose pages are as long as they may be, and that seems to have just started."""

    def __init__(self):
        self.asked = 0

    def __call__(self, call):
        if call.target == "/v1/models":
            call.answer(b'{"data": [{"id": "a", "parent": [' + b"[]," * 300_000 + b"[]]}]}")
            return
        self.asked += 1
        lines = [b'vllm:num_requests_waiting{engine="%d"} 1\n' % n for n in range(2000)]
        call.answer(b"".join([*lines, b"process_start_time_seconds %d\n" % self.asked]))
