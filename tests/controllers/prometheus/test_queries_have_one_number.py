"""A query has the one number that Prometheus gives, or no value and a reason; never 0 instead."""

import asyncio
import json
import subprocess
import sys
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from headgate.autoscaling.samples import Total
from headgate.controllers import prometheus_client as module
from headgate.controllers.autoscaling.prometheus import Prometheus, is_query, query_of

TOOL = Path(__file__).parents[3] / "tools" / "control_plane"
ONE = "prometheus:vector(1)"


def vector(*values: object) -> bytes:
    result = [{"metric": {}, "value": [1.5, value]} for value in values]
    return answer({"status": "success", "data": {"resultType": "vector", "result": result}})


def answer(document: object, status: str = "200 OK") -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


class FakeServer:
    """Answers with `data`, or not at all if that is empty."""

    def __init__(self) -> None:
        self.data = vector("1")
        self.queries: list[str] = []
        self.heads: list[str] = []
        self.closes = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                form = urllib.parse.parse_qs((await reader.readexactly(length)).decode())
                self.heads.append(head)
                self.queries += form["query"]
                writer.write(self.data)
                if self.closes:
                    break
        except (OSError, EOFError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def fake() -> AsyncIterator[FakeServer]:
    made = FakeServer()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield made
    server.close()


Connect = Callable[..., Awaitable[Prometheus]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    made = []

    async def start(url: str, **options) -> Prometheus:
        made.append(Prometheus(url, **options))
        return made[-1]

    yield start
    for each in made:
        await each.close()


async def test_sums_and_means_are_told_apart(fake, connect):
    """By the beginning of the metricName; other metrics are not asked for."""
    prometheus = await connect(fake.url)
    fake.data = vector("2.5")
    names = [ONE, "prometheus-mean:avg(up)", "headgate:arrivals", "vllm:num_requests_waiting"]
    totals = await prometheus.totals(names, "team", "chat", 30)
    assert totals == {ONE: Total(2.5), "prometheus-mean:avg(up)": Total(2.5, is_ratio=True)}
    assert sorted(fake.queries) == ["avg(up)", "vector(1)"]
    assert prometheus.queries == {"read": 2, "failed": 0}
    assert not is_query("headgate:arrivals")


def test_queries_name_their_target():
    asked = 'sum(x{namespace="$namespace",pod=~"$name-.*",other="$names"})'
    told = 'sum(x{namespace="team",pod=~"chat-.*",other="$names"})'
    assert query_of("prometheus:" + asked, "team", "chat") == told


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (vector(), "0 series"),
        (vector("1", "2"), "2 series"),
        (vector("NaN"), "no finite number"),
        (vector("+Inf"), "no finite number"),
        (vector("many"), "no finite number"),
        (vector(None), "no finite number"),
        (vector([1]), "no finite number"),
        (answer({"status": "success", "data": {"resultType": "vector", "result": [7]}}), "no finite number"),
        (answer({"status": "success", "data": {"resultType": "matrix", "result": []}}), "a matrix"),
        (answer({"status": "success"}), "result of no type"),
        (
            answer({"status": "error", "error": "parse error: unexpected <eof>"}, "400 Bad Request"),
            "parse error",
        ),
        (answer({"status": "error", "error": "x" * 10_000}, "422 No"), "rejects the query"),
        (answer(b"<html>", "502 Bad Gateway"), "answers 502"),
        (answer(b"[]"), "answers 200"),
        (answer(b"{" * 100_000), "answers 200"),
        (answer(b'{"status": "success", "data": {"result": ' + b"[" * 100_000), "answers 200"),
        (
            answer(b'{"status":"success","data":{"resultType":"scalar","result":[1,1%b]}}' % (b"0" * 400)),
            "no finite number",
        ),
        (answer(b" " * (module.MAX_RESPONSE_BYTES + 1)), "aggregate to one number"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", "cannot be asked"),
        (b"no HTTP at all\r\n\r\n", "cannot be asked"),
    ],
)
async def test_answers_without_one_number_are_missing(fake, connect, data, told):
    prometheus = await connect(fake.url)
    fake.data, fake.closes = data, True
    assert await prometheus.totals([ONE], "team", "chat", 30) == {}
    problem = prometheus.problem(ONE, "team", "chat")
    assert told in problem
    assert len(problem) < 300
    assert prometheus.queries["failed"] == 1


async def test_a_server_that_is_silent_or_away_holds_nobody_up(fake, connect, monkeypatch):
    """The deadline of the target ends the wait; other queries go on."""
    prometheus = await connect(fake.url)
    fake.data = b""
    async with asyncio.timeout(60):
        assert await prometheus.totals([ONE], "team", "chat", 0.2) == {}
        assert prometheus.problem(ONE, "team", "chat") == ""
        monkeypatch.setattr(module, "QUERY_S", 0.2)
        assert await prometheus.totals(["prometheus:other"], "team", "chat", 30) == {}
    assert "did not answer within 0.2 s" in prometheus.problem("prometheus:other", "team", "chat")
    away = await connect("http://127.0.0.1:9")
    assert await away.totals([ONE], "team", "chat", 30) == {}
    assert "cannot be asked" in away.problem(ONE, "team", "chat")
    wrong = await connect("nonsense")
    assert await wrong.totals([ONE], "team", "chat", 30) == {}


async def test_the_same_query_is_asked_once_a_second(fake, connect):
    """However many bindings have it; a failure counts as long."""
    now = [100.0]
    prometheus = await connect(fake.url, clock=lambda: now[0])
    asked = [prometheus.totals([ONE], "team", f"chat-{number}", 30) for number in range(20)]
    assert await asyncio.gather(*asked) == [{ONE: Total(1.0)}] * 20
    assert len(fake.queries) == 1
    now[0] += 1.1
    fake.data = vector()
    for _ in range(3):
        assert await prometheus.totals([ONE], "team", "chat", 30) == {}
    assert len(fake.queries) == 2
    now[0] += 1.1
    fake.data = vector("3")
    assert await prometheus.totals([ONE], "team", "chat", 30) == {ONE: Total(3.0)}
    assert prometheus.problem(ONE, "team", "chat") == ""


async def test_tokens_are_read_for_each_query(fake, connect, tmp_path):
    """They are renewed in their file; without a valid one, nothing is sent."""
    now = [100.0]
    file = tmp_path / "token"
    prometheus = await connect(fake.url, token_file=file, clock=lambda: now[0])
    for written in ("one\n", "two", "", "a\r\nx: y"):
        file.write_bytes(written.encode())
        await prometheus.totals([ONE], "team", "chat", 30)
        now[0] += 2
    assert ["authorization: bearer one" in head.lower() for head in fake.heads] == [True, False]
    assert "authorization: bearer two" in fake.heads[1].lower()
    assert "no valid token" in prometheus.problem(ONE, "team", "chat")
    file.unlink()
    await prometheus.totals([ONE], "team", "chat", 30)
    assert "cannot be asked" in prometheus.problem(ONE, "team", "chat")


@pytest.fixture
async def real_url(tmp_path, unused_tcp_port) -> AsyncIterator[str]:
    """Of a Prometheus that scrapes nothing; without its program, the test is skipped."""
    found = subprocess.run(  # noqa: ASYNC221 - it only prints paths
        [sys.executable, TOOL, "path-monitoring"], capture_output=True, text=True, check=True
    )
    programs = {Path(line).name: line for line in found.stdout.split()}
    if "prometheus" not in programs:
        pytest.skip("there is no Prometheus: `make monitoring` builds it")
    config = tmp_path / "prometheus.yml"
    config.write_text("scrape_configs: []\n")
    url = f"http://127.0.0.1:{unused_tcp_port}"
    process = await asyncio.create_subprocess_exec(
        programs["prometheus"],
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{unused_tcp_port}",
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(120), httpx2.AsyncClient(trust_env=False) as http:
        while True:
            try:
                if (await http.get(f"{url}/-/ready")).status_code == 200:
                    break
            except httpx2.HTTPError:
                await asyncio.sleep(0.1)
    yield url
    process.terminate()
    await process.wait()


async def test_a_real_prometheus_is_asked(real_url, connect):
    """Vectors, scalars, and what it says about a wrong query."""
    prometheus = await connect(real_url)
    good = {"prometheus:sum(vector(2) + vector(3))": 5.0, "prometheus:scalar(vector(7))": 7.0}
    wrong = {
        "prometheus:sum(": "parse error",
        "prometheus:nothing_at_all": "0 series",
        'prometheus:"text"': "string",
        "prometheus:vector(1)[5m:1m]": "matrix",
        "prometheus:vector(0) / vector(0)": "no finite number",
    }
    totals = await prometheus.totals([*good, *wrong], "team", "chat", 60)
    assert {name: total.value for name, total in totals.items()} == good
    for name, told in wrong.items():
        assert told in prometheus.problem(name, "team", "chat")
