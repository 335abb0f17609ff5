"""`kubectl exec`: another command with the environment, working directory and mounts of a container.

The client opens one stream each for errors, standard input, output and error, and for sizes of the terminal.
At the end, the stream of errors gets a Status with the exit code. The command ends with its container, and if
its client disconnects; processes that it leaves behind end with it, as those of a container do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, closing, suppress
from dataclasses import dataclass
from typing import Annotated

import msgspec

from headgate.node import processes
from headgate.node.kubelet import stdio
from headgate.node.kubelet.streams import Connection, Stream

PROTOCOL = "v4.channel.k8s.io"
STREAMS_S = 30.0
"""How long the client has to open its streams."""
_MAX_SIZE_BYTES = 1 << 10
_LAST_OUTPUT_S = 2.0
"""A process that escaped its command's end could keep the output open for ever."""


@dataclass(frozen=True)
class Wanted:
    """What the client asks for."""

    command: Sequence[str]
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @property
    def streams(self) -> frozenset[str]:
        """Kinds of streams that the client opens."""
        kinds = {"error": True, "stdin": self.stdin, "stdout": self.stdout}
        kinds |= {"stderr": self.stderr and not self.tty, "resize": self.tty}
        return frozenset(kind for kind, is_wanted in kinds.items() if is_wanted)


Start = Callable[[Sequence[str], processes.Stdio], Awaitable[processes.Process]]
"""Starts a command beside the container. Raises StartError."""


async def serve(connection: Connection, wanted: Wanted, container: processes.Process, start: Start) -> None:
    """Run the command until it ends, its container ends, or the client disconnects."""
    async with aclosing(connection.streams()) as opened:
        streams = await _streams(opened, wanted.streams)
        if streams is None:
            return
        working = {
            asyncio.create_task(_run(wanted, streams, container, start)),
            asyncio.create_task(_refuse_more(opened)),
        }
        try:
            await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)


async def refuse(connection: Connection, wanted: Wanted, message: str) -> None:
    """Tell the user why nothing runs. Kubernetes 1.34 does not show the text of an HTTP error."""
    async with aclosing(connection.streams()) as opened:
        streams = await _streams(opened, wanted.streams)
        if streams is not None:
            await streams["error"].write(_status(message))
            for stream in streams.values():
                stream.close()


async def _streams(opened: AsyncGenerator[Stream, None], kinds: frozenset[str]) -> dict[str, Stream] | None:
    """One stream of each kind; None if the client disconnects before, or takes too long."""
    try:
        async with asyncio.timeout(STREAMS_S):
            return await _all(opened, kinds)
    except TimeoutError:
        return None


async def _all(opened: AsyncGenerator[Stream, None], kinds: frozenset[str]) -> dict[str, Stream] | None:
    found: dict[str, Stream] = {}
    async for stream in opened:
        kind = stream.headers.get("streamtype", "")
        if kind not in kinds or kind in found:
            stream.reset()
            continue
        found[kind] = stream
        if kind not in ("stdin", "resize"):
            stream.ignore_input()
        if len(found) == len(kinds):
            return found
    return None


async def _refuse_more(opened: AsyncGenerator[Stream, None]) -> None:
    async for stream in opened:
        stream.reset()


async def _run(
    wanted: Wanted,
    streams: dict[str, Stream],
    container: processes.Process,
    start: Start,
) -> None:
    with suppress(ConnectionError):
        try:
            code = await _code(wanted, streams, container, start)
        except (processes.StartError, OSError) as error:
            await streams["error"].write(_status(str(error)))
        else:
            await streams["error"].write(_exit_status(code))
    for stream in streams.values():
        stream.close()


async def _code(
    wanted: Wanted,
    streams: dict[str, Stream],
    container: processes.Process,
    start: Start,
) -> int:
    """Run the command; returns its exit code. Raises StartError and OSError if it cannot be started."""
    with closing(stdio.Terminal() if wanted.tty else stdio.Pipes(has_input=wanted.stdin)) as ends:
        process = await start(wanted.command, ends.theirs)
        return await _attend(process, ends, streams, container)


async def _attend(
    process: processes.Process,
    ends: stdio.Ends,
    streams: dict[str, Stream],
    container: processes.Process,
) -> int:
    """Copy input and output until the command has ended."""
    outputs = [
        asyncio.create_task(_copy_output(end, streams[kind]))
        for kind, end in ends.outputs.items()
        if kind in streams
    ]
    others = [asyncio.create_task(_end_with(container, process))]
    if "stdin" in streams:
        others.append(asyncio.create_task(_copy_input(streams["stdin"], ends)))
    if "resize" in streams:
        others.append(asyncio.create_task(_resize(streams["resize"], ends)))
    try:
        ended = await process.wait()
        await asyncio.wait(outputs, timeout=_LAST_OUTPUT_S) if outputs else None
    finally:
        for task in (*outputs, *others):
            task.cancel()
        await asyncio.gather(*outputs, *others, return_exceptions=True)
    return ended.code


async def _end_with(container: processes.Process, process: processes.Process) -> None:
    await container.ended.wait()
    process.kill()


async def _copy_output(end: int, stream: Stream) -> None:
    with suppress(ConnectionError):
        while data := await stdio.read(end):
            await stream.write(data)
        stream.close()


async def _copy_input(stream: Stream, ends: stdio.Ends) -> None:
    try:
        while data := await stream.read():
            await stdio.write(ends.stdin, data)
    except OSError:
        pass  # the command reads no more, or the client sends no more
    stream.ignore_input()
    ends.end_input()


async def _resize(stream: Stream, ends: stdio.Ends) -> None:
    """Sizes are JSON, one after the other."""
    text = b""
    with suppress(ConnectionError):
        while data := await stream.read():
            *sizes, text = (text + data).split(b"}")
            for each in sizes:
                with suppress(msgspec.MsgspecError, OSError):
                    size = msgspec.json.decode(each + b"}", type=_Size)
                    ends.resize(size.width, size.height)
            text = text[-_MAX_SIZE_BYTES:]


_Cells = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class _Size(msgspec.Struct, frozen=True, rename="pascal"):
    width: _Cells
    height: _Cells


def _exit_status(code: int) -> bytes:
    if code == 0:
        return msgspec.json.encode({"metadata": {}, "status": "Success"})
    causes = [{"reason": "ExitCode", "message": str(code)}]
    message = f"the command ended with exit code {code}"
    return _status(message, reason="NonZeroExitCode", details={"causes": causes})


def _status(message: str, **fields: object) -> bytes:
    return msgspec.json.encode({"metadata": {}, "status": "Failure", "message": message, **fields})
