"""All variants of a model in a namespace share one set of queries, and its failure."""

import asyncio
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.controllers import prometheus_client
from headgate.controllers.planning import prometheus_loads
from headgate.controllers.planning.prometheus_loads import FRESH_S, PrometheusLoads
from headgate.controllers.prometheus_client import Data, QueryError
from headgate.planning.load import PROMETHEUS_ERROR, Load
from headgate.planning.settings_map import PrometheusSettings

QUERIES = 11
"""For the first load; how often engines are scraped is asked once a minute."""


class Server:
    """Answers each query with `value`, but samples are two seconds old; or with `raw`."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.heads: list[str] = []
        self.value = "2"
        self.samples = "24"
        """Within two minutes."""
        self.broken = ""
        """Queries with this text fail."""
        self.raw: bytes | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                form = urllib.parse.parse_qs((await reader.readexactly(length)).decode())
                self.heads.append(head)
                self.queries += form["query"]
                writer.write(self.raw or self._answer(form["query"][0]))
                if self.raw:
                    break
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    def _answer(self, query: str) -> bytes:
        value = "2" if query.startswith("time()") else self.value
        if "count_over_time" in query:
            value = str(float(self.samples) / (4 if "[30s]" in query else 1))
        result = [{"metric": {}, "value": [1.5, value]}]
        document = {"status": "success", "data": {"resultType": "vector", "result": result}}
        if self.broken and self.broken in query:
            document = {"status": "error", "error": "it is broken"}
        body = json.dumps(document).encode()
        return f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


@pytest.fixture
async def server():
    made = Server()
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    yield made
    listening.close()


@pytest.fixture
async def loads_of():
    made = []

    def make(url: str, clock=lambda: 0.0, **settings) -> PrometheusLoads:
        made.append(PrometheusLoads(PrometheusSettings(url=url, **settings), clock))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def test_ten_variants_need_one_set_of_queries(server, loads_of):
    """Case 14."""
    now = [0.0]
    loads = loads_of(server.url, lambda: now[0])
    found = await asyncio.gather(*(loads.collect("llama", "team") for _ in range(10)))
    assert len(server.queries) == len(set(server.queries)) == QUERIES
    assert all(each is found[0] for each in found)
    assert found[0] == Load(
        arrivals_per_s=2,
        prompt_tokens=2,
        output_tokens=2,
        cached_share=1,
        waiting=2,
        ttft_ms=2000,
        itl_ms=2000,
    )
    assert await loads.collect("llama", "team") is found[0]
    await loads.collect("llama", "other")
    await loads.collect("mistral", "team")
    assert len(server.queries) == 3 * QUERIES
    now[0] += FRESH_S
    assert await loads.collect("llama", "team") is not found[0]
    assert len(server.queries) == 4 * QUERIES - 2


async def test_what_a_plan_needs_must_be_read(server, loads_of):
    """A load without prompts would be planned for with too few replicas; latencies are only shown."""
    now = [0.0]
    loads = loads_of(server.url, lambda: now[0])
    for name in ("request_prompt_tokens_sum", "request_generation_tokens_sum", "rate(vllm:request_success"):
        server.broken = name
        now[0] += FRESH_S
        found = await loads.collect("llama", "team")
        assert found == (PROMETHEUS_ERROR, "Prometheus rejects the query: it is broken")
    server.broken = "seconds_sum"
    now[0] += FRESH_S
    found = await loads.collect("llama", "team")
    assert (found.ttft_ms, found.itl_ms, found.output_tokens) == (0, 0, 2)


@pytest.mark.parametrize(
    ("samples", "window_s"),
    [("24", 15), ("60", 15), ("12", 25), ("8", 35), ("4", 60), ("1", 60), ("0", 60), ("NaN", 60)],
)
async def test_arrivals_are_those_of_two_scrapes(server, loads_of, samples, window_s):
    """By the samples of two minutes; a step shows that much earlier."""
    server.samples = samples
    loads = loads_of(server.url)
    assert loads.window_s("llama", "team") == 60
    await loads.collect("llama", "team")
    assert loads.window_s("llama", "team") == window_s
    arrivals = next(each for each in server.queries if "delta" in each)
    assert (f"[{window_s}s]" in arrivals) is (window_s < 60)
    assert "[1m]" in arrivals


async def test_a_server_that_is_closed_cancels_nobody(server, loads_of):
    """Others may be asking while the ConfigMap names another one."""
    server.raw = b""
    loads = loads_of(server.url)
    asking = asyncio.create_task(loads.collect("llama", "team"))
    await asyncio.sleep(0)
    await loads.close()
    assert (await asking).reason == PROMETHEUS_ERROR


@pytest.mark.parametrize(
    ("value", "amount"), [("-3", 0), ("NaN", None), ("+Inf", None), ("-Inf", None), ("1e300", 1e9)]
)
async def test_amounts_are_bounded(server, loads_of, value, amount):
    server.value = value
    found = await loads_of(server.url).collect("llama", "team")
    if amount is None:
        assert found.reason == PROMETHEUS_ERROR
    else:
        assert (found.arrivals_per_s, found.prompt_tokens, found.waiting) == (amount, amount, amount)
        assert found.cached_share == min(amount, 1)


@pytest.mark.parametrize(
    "raw",
    [
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno",
        b"HTTP/1.1 302 Found\r\nlocation: http://elsewhere/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n" + b" " * 9_999_999,
        b'HTTP/1.1 200 OK\r\ncontent-length: 22\r\n\r\n{"status":"success"  }',
    ],
)
async def test_any_other_response_is_an_error(server, loads_of, raw):
    server.raw = raw
    reason, told = await loads_of(server.url).collect("llama", "team")
    assert reason == PROMETHEUS_ERROR
    assert told.startswith("Prometheus") or "the response has more than" in told
    assert len(told) < 300


async def test_tokens_are_sent_and_never_told(server, loads_of, tmp_path):
    """One from the settings, or one from a file that is read each time."""
    await loads_of(server.url, bearer_token="s3cret").collect("llama", "team")
    assert {"authorization: bearer s3cret" in head.lower() for head in server.heads} == {True}
    server.heads.clear()
    file = tmp_path / "token"
    now = [0.0]
    loads = loads_of(server.url, lambda: now[0], token_path=str(file))
    reason, told = await loads.collect("llama", "team")
    assert reason == PROMETHEUS_ERROR
    assert str(file) in told
    assert server.heads == []
    file.write_text("one\n")
    now[0] += FRESH_S
    assert isinstance(await loads.collect("llama", "team"), Load)
    assert {"authorization: bearer one" in head.lower() for head in server.heads} == {True}
    reason, told = await loads_of(server.url, bearer_token="bad\r\nx: y").collect("llama", "team")
    assert (reason, told) == (PROMETHEUS_ERROR, "the bearer token has no valid token")
    assert "s3cret" not in repr(PrometheusSettings(url=server.url, bearer_token="s3cret"))


async def test_a_slow_server_holds_nobody_up(loads_of, monkeypatch):
    monkeypatch.setattr(prometheus_client, "QUERY_S", 0.2)
    release = asyncio.Event()

    async def never(reader, writer):
        await release.wait()
        writer.close()

    listening = await asyncio.start_server(never, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with asyncio.timeout(60):
        reason, told = await loads_of(url).collect("llama", "team")
    assert (reason, told) == (PROMETHEUS_ERROR, "Prometheus did not answer within 0.2 s")
    release.set()
    listening.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "metric"]), inner),
    max_leaves=12,
)


@given(st.sampled_from(["vector", "scalar", "matrix", ""]), JSON)
def test_any_result_is_a_number_none_or_an_error(kind, result):
    try:
        number = prometheus_loads._number(Data(resultType=kind, result=result))
    except QueryError as error:
        assert len(str(error)) < 300
    else:
        assert number is None or isinstance(number, float)


@given(st.text(max_size=50), st.text(max_size=50))
def test_names_end_no_string_of_a_query(model, namespace):
    """Each is one string of PromQL, whatever it has in it."""
    text = prometheus_loads._labels(model, namespace)
    assert "\n" not in text
    inside = text.removeprefix('{model_name="').removesuffix('"}')
    bare = inside.replace("\\\\", "").replace('\\"', "")
    assert bare.count('"') == 2, "the end of the first, and the beginning of the second"
