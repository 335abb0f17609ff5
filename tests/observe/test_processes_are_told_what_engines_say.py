"""Whoever serves requests is told of each reading and each restart of an engine, and lends what is needed."""

import msgspec
import pytest

from headgate import fleet, observe, routing
from headgate.api import ObjectRef
from headgate.observe.scraper import Scraper

KEY = ObjectRef("ModelServer", "default", "pool")
SETTINGS = observe.Settings(
    enabled=True,
    interval_s=0.02,
    busy_interval_s=0.01,
    max_per_s=1000,
    stale_s=5.0,
    timeout_s=5.0,
    path="/metrics",
    port=0,
    processes=1,
)


class Engine:
    """An idle vLLM, for as long as a test does not say otherwise."""

    def __init__(self) -> None:
        self.waiting = 0
        self.began = 1000.0

    def __call__(self, call) -> None:
        if call.target == "/v1/models":
            call.answer(b'{"data": [{"id": "base"}]}')
        else:
            call.answer(
                b"vllm:num_requests_waiting %d\n" % self.waiting
                + b"vllm:num_requests_running 0\n"
                + b"process_start_time_seconds %f\n" % self.began
            )


class Told:
    """What a process that serves requests was told."""

    def __init__(self) -> None:
        self.heard = []
        self.restarted = []

    def listener(self) -> observe.Listener:
        return observe.Listener(
            heard=self.heard.append, restarted=self.restarted.append, is_waited_for=lambda load: False
        )


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def scraper(process, told):
    """Looks at what it is given."""
    scraper = Scraper(SETTINGS, process, fleet.Ledger(fleet.EjectionPolicy()), told.listener())
    scraper.start()
    return scraper


@pytest.fixture
async def load(start_server, scraper, engine):
    """Of the endpoint that is looked at."""
    endpoint = routing.Endpoint("default/pod", "127.0.0.1", await start_server(engine))
    scraper.use([routing.Pool(key=KEY, endpoints=(endpoint,))])
    (watch,) = scraper.watches()
    return watch.load


async def test_each_reading_is_told(load, told, engine, eventually):
    """After the endpoint has it."""
    await eventually(lambda: told.heard)
    assert told.heard[0] is load
    engine.waiting = 3
    await eventually(lambda: load.reading is not None and load.reading.waiting == 3)
    assert not told.restarted


async def test_an_engine_that_starts_anew_is_told_of_once(load, told, scraper, engine, eventually):
    """Its caches are empty, and its adapters are gone."""
    await eventually(lambda: told.heard)
    engine.began += 1000.0
    await eventually(lambda: told.restarted)
    read = scraper.looks.pages["read"]
    await eventually(lambda: scraper.looks.pages["read"] > read + 3)
    assert told.restarted == [load]
    assert scraper.looks.restarts == 1


async def test_endpoints_that_are_not_looked_at_have_no_reading(load, scraper, eventually):
    """Neither where the settings turn looks off, nor once no pool has the endpoint."""
    await eventually(lambda: load.reading)
    scraper.change(msgspec.structs.replace(SETTINGS, enabled=False))
    await eventually(lambda: load.reading is None)
    assert scraper.watch(load) is None
    scraper.change(SETTINGS)
    await eventually(lambda: load.reading)
    scraper.use([])
    await eventually(lambda: load.reading is None)
    assert scraper.watches() == []
