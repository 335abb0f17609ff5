"""Gateways that trace requests, and what they export."""

import random
import time

import pytest

from headgate.dataplane import tracing
from headgate.dataplane.tracing import Tracer
from headgate.telemetry.tracing import SERVER, Export


class Traces(list):
    """The finished traces of a gateway, oldest first."""

    def spans(self, place=-1):
        """Those of one trace by name; several with one name are listed with their number."""
        found = {}
        for span in self[place].spans:
            name = span.name
            number = 1
            while name in found:
                number += 1
                name = f"{span.name} {number}"
            found[name] = span
        return found


@pytest.fixture
async def start_traced(start_gateway):
    """Starts a gateway whose traces are collected here: a list beside it."""

    async def start(*endpoints, settings=None, ratio=1.0, **pool):
        gateway = await start_gateway(*endpoints, settings=settings, **pool)
        return gateway, trace(gateway, ratio)

    return start


def trace(gateway, ratio=1.0, follows_parents=True):
    """The traces of this gateway from now on."""
    traces = Traces()
    export = Export(endpoint="", shown="", ratio=ratio, follows_parents=follows_parents)
    settings = gateway.shell.settings.tracing
    gateway.recorder.tracer = Tracer(
        settings, export, random.Random(7), traces.append, time.time, kind=SERVER
    )
    return traces


@pytest.fixture(name="trace")
def _trace():
    return trace


@pytest.fixture
async def start_exporting(start_gateway, collector):
    """Starts a gateway that exports to the collector, by a process as in production."""
    running = []

    async def start(*endpoints, settings=None, **pool):
        chosen = {"tracing_endpoint": collector.url, "tracing_sample_ratio": 1.0} | (settings or {})
        gateway = await start_gateway(*endpoints, settings=chosen, **pool)
        made = tracing.start(gateway.shell.settings.tracing, "headgate-gateway", SERVER)
        running.append(made)
        gateway.recorder.tracer = made.tracer
        tracing.add_metrics(gateway.registry, made, "headgate_gateway")
        return gateway, made

    yield start
    for made in running:
        made.close()
        made.sender._process.kill()  # it waits for a collector that does not respond
        made.sender._process.wait()
