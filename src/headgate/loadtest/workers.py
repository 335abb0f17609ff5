"""Measure one server from several processes, for loads that one cannot send without delays of its own.

Each process gets every n-th conversation and begins at the same time. Processes read their job from standard
input, and end when it is closed; they write their state once a second, and what they counted at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from headgate import garbage
from headgate.loadtest.histogram import Histogram
from headgate.loadtest.http import HttpError
from headgate.loadtest.lag import Burden
from headgate.loadtest.measuring import Begun, Job, State, measure
from headgate.loadtest.records import Tally
from headgate.loadtest.running import Stop

__all__ = ["measure_in_processes", "work"]

_EVERY_S: Final = 1.0
_START_S: Final = 60.0
_END_S: Final = 30.0
"""For the processes to end after a stop."""
_LENGTH: Final = struct.Struct("!I")
_MAX_FRAME_BYTES: Final = 2**30


class _Order(msgspec.Struct, tag="order"):
    job: Job


class _Ready(msgspec.Struct, tag="ready"):
    pass


class _Begin(msgspec.Struct, tag="begin"):
    began_s: float
    """By `time.perf_counter`, which all processes of a machine share."""


class _Report(msgspec.Struct, tag="report"):
    state: State


class _Result(msgspec.Struct, tag="result"):
    tally: Tally
    burdens: list[Burden]


_Frame = _Order | _Ready | _Begin | _Report | _Result
_DECODER = msgspec.msgpack.Decoder(_Frame)


def _encoded(frame: _Frame) -> bytes:
    data = msgspec.msgpack.encode(frame)
    return _LENGTH.pack(len(data)) + data


async def _read(reader: asyncio.StreamReader) -> _Frame:
    """Raises IncompleteReadError at the end."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > _MAX_FRAME_BYTES:
        raise RuntimeError(f"a frame of {length} bytes")
    frame: _Frame = _DECODER.decode(await reader.readexactly(length))
    return frame


async def measure_in_processes(
    job: Job, count: int, stop: Stop, begun: Begun, early_s: float = 0.0
) -> tuple[Tally, list[Burden]]:
    """Like `measure`, by several processes. `early_s`: how long before its start the plan begins.

    Raises HttpError if a process fails.
    """
    jobs = _divided(job, count)
    processes = [await _Process.start(each) for each in jobs]
    try:
        async with asyncio.timeout(_START_S):
            await asyncio.gather(*(each.ready() for each in processes))
        began_s = time.perf_counter() - early_s
        begun(lambda: _total([each.state for each in processes]))
        results = asyncio.gather(*(each.run(began_s) for each in processes))
        stopping = asyncio.ensure_future(stop.wait())
        ends: list[asyncio.Future[Any]] = [results, stopping]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for each in processes:
            each.stop()
        found = await asyncio.wait_for(results, _END_S)
    except (TimeoutError, asyncio.IncompleteReadError) as error:
        raise HttpError("a client process of the load test ended early") from error
    finally:
        for each in processes:
            await each.end()
    tally = Tally(slo=job.slo)
    for result in found:
        tally.add(result.tally)
    return tally, [burden for result in found for burden in result.burdens]


def _divided(job: Job, count: int) -> list[Job]:
    parts = [job.plan[first::count] for first in range(count)]
    most = -(-job.limits.max_in_flight // count)
    limits = msgspec.structs.replace(job.limits, max_in_flight=most)
    return [msgspec.structs.replace(job, plan=part, limits=limits) for part in parts if part]


def _total(states: Sequence[State]) -> State:
    ttft = Histogram()
    for each in states:
        ttft.add(each.ttft)
    return State(
        requests=sum(each.requests for each in states),
        failed=sum(each.failed for each in states),
        output_tokens=sum(each.output_tokens for each in states),
        in_flight=sum(each.in_flight for each in states),
        cpu_share=max(each.cpu_share for each in states),
        ttft=ttft,
    )


class _Process:
    """One process, from the side of the command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout
        self.state = State()

    @classmethod
    async def start(cls, job: Job) -> _Process:
        command = (sys.executable, "-P", "-c", "from headgate.loadtest.workers import work; work()")
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the command, which stops them
        )
        made = cls(process)
        made._input.write(_encoded(_Order(job)))
        return made

    async def ready(self) -> None:
        await self._input.drain()
        await _read(self._output)

    async def run(self, began_s: float) -> _Result:
        self._input.write(_encoded(_Begin(began_s)))
        while not isinstance(frame := await _read(self._output), _Result):
            if isinstance(frame, _Report):
                self.state = frame.state
        return frame

    def stop(self) -> None:
        self._input.close()

    async def end(self) -> None:
        self._input.close()
        if self._process.returncode is None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 1.0)
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def work() -> None:
    """The main function of a process."""
    import uvloop

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    uvloop.run(_work())


async def _work() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    order = await _read(reader)
    assert isinstance(order, _Order)
    _write(_Ready())
    begin = await _read(reader)
    assert isinstance(begin, _Begin)
    garbage.spare_what_there_is()
    stop = asyncio.Event()
    ending = asyncio.ensure_future(_until_end(reader, stop))
    reporting: list[asyncio.Future[None]] = []
    try:
        tally, burdens = await measure(
            order.job,
            stop,
            lambda state: reporting.append(asyncio.ensure_future(_report(state))),
            begin.began_s,
        )
    finally:
        for each in (ending, *reporting):
            each.cancel()
    _write(_Result(tally, burdens))


async def _until_end(reader: asyncio.StreamReader, stop: asyncio.Event) -> None:
    await reader.read()
    stop.set()


async def _report(state: object) -> None:
    assert callable(state)
    while True:
        await asyncio.sleep(_EVERY_S)
        _write(_Report(state()))


def _write(frame: _Frame) -> None:
    """The command reads all the time."""
    data = memoryview(_encoded(frame))
    while data:
        data = data[os.write(1, data) :]
