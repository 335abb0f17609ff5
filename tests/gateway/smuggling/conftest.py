"""Cases of bytes that servers interpret differently, from the text files next to this one."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import h11
import pytest
import uvloop

BODY = b'{"model":"m"}'
SHORT = {
    b"<start>": b"POST /v1/completions HTTP/1.1\r\nhost: g\r\n",
    b"<length>": b"content-length: 13\r\n",
    b"<chunked>": b"transfer-encoding: chunked\r\n",
    b"<chunks>": b"d\r\n" + BODY + b"\r\n0\r\n\r\n",
    b"<body>": BODY,
    b"<ok>": b"HTTP/1.1 200 OK\r\n",
}


def pytest_asyncio_loop_factories(config, item):
    """What bytes mean does not depend on the event loop."""
    return {"uvloop": uvloop.new_event_loop}


@dataclass
class Case:
    name: str
    verdict: str
    sent: bytes
    told: dict[str, bytes] = field(default_factory=dict)
    """What is said in the lines below it."""


def _bytes(text: str) -> bytes:
    data = text.encode("latin-1").decode("unicode_escape").encode("latin-1")
    for short, meant in SHORT.items():
        data = data.replace(short, meant)
    return data


def _cases(file: Path) -> list[Case]:
    found: list[Case] = []
    for line in file.read_text("latin-1").splitlines():
        if line.startswith("    "):
            name, _, value = line.strip().partition(":")
            found[-1].told[name] = _bytes(value.removeprefix(" "))
        elif line and not line.startswith("#"):
            name, verdict, sent = line.split(" | ", 2)
            found.append(Case(name, verdict, _bytes(sent)))
    return found


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        cases = _cases(Path(__file__).with_name(metafunc.module.CORPUS))
        assert len({case.name for case in cases}) == len(cases)
        metafunc.parametrize("case", cases, ids=lambda case: case.name)


class RecordingEndpoint:
    """Keeps every byte that it gets. It answers what h11 takes for a request, and nothing else."""

    def __init__(self) -> None:
        self.connections: list[bytes] = []
        """The bytes of each."""
        self.requests = 0
        self.script = b""
        """Answers the first request, instead of h11."""
        self.closes_behind_script = False
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        place = len(self.connections)
        self.connections.append(b"")
        parser = h11.Connection(h11.SERVER)
        while data := await reader.read(65536):
            self.connections[place] += data
            parser.receive_data(data)
            while (event := parser.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.EndOfMessage):
                    self.requests += 1
                    if self.script and self.requests == 1:
                        writer.write(self.script)
                        if self.closes_behind_script:
                            writer.close()
                        parser = h11.Connection(h11.SERVER)
                        continue
                    body = b"answer %d" % self.requests
                    head = h11.Response(status_code=200, headers=[("content-length", str(len(body)))])
                    for part in (head, h11.Data(data=body), h11.EndOfMessage()):
                        writer.write(parser.send(part))
                    parser.start_next_cycle()
        writer.transport.abort()


@pytest.fixture
async def recording_endpoint():
    endpoint = RecordingEndpoint()
    await endpoint.start()
    yield endpoint
    await endpoint.stop()
