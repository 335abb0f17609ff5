"""Probes: what is asked, and what the answers add up to."""

import asyncio
import contextlib
import datetime
import ssl

import msgspec
import pytest

from headgate.apiserver import pki
from headgate.node import pod_spec, prober
from headgate.node.probe_schedule import EAGER_S, ProbeKind, ProbeSchedule


def probe(**fields) -> pod_spec.Probe:
    return msgspec.convert({"timeoutSeconds": 60, **fields}, pod_spec.Probe)


async def ask(asked: pod_spec.Probe, target: prober.ProbeTarget) -> prober.Answer:
    async def execute(command, limit_s):
        return prober.Answer(command == ["true"], f"within {limit_s} s")

    return await prober.ask(asked, target, execute)


async def serving(
    answer: bytes, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.Server, prober.ProbeTarget, list[bytes]]:
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(EOFError):  # of a probe that only connects
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    return server, prober.ProbeTarget("127.0.0.1", {"http": port}), heads


@pytest.mark.parametrize(
    ("answer", "healthy"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", True),
        (b"HTTP/1.0 302 Found\r\n\r\n", True),
        (b"HTTP/1.1 400 Bad\r\n\r\n", False),
        (b"HTTP/1.1 503 Busy\r\n\r\n", False),
        (b"SSH-2.0-OpenSSH\r\n", False),
        (b"x" * 5000, False),
        (b"", False),
    ],
)
async def test_http_answers_from_200_to_399_are_healthy(answer, healthy):
    """Anything else, and anything that is no HTTP, is not; nothing raises."""
    server, target, _ = await serving(answer)
    async with server:
        got = await ask(probe(httpGet={"port": "http", "path": "/health"}), target)
    assert got.healthy is healthy
    assert got.detail


async def test_the_probe_asks_what_it_was_told():
    """Path and headers are sent as written, to the named port."""
    server, target, heads = await serving(b"HTTP/1.1 200 OK\r\n\r\n")
    headers = [{"name": "Authorization", "value": "Bearer x"}]
    async with server:
        await ask(probe(httpGet={"port": "http", "path": "/ready?x=1", "httpHeaders": headers}), target)
    [head] = heads
    assert head.startswith(b"GET /ready?x=1 HTTP/1.1\r\n")
    assert b"authorization: Bearer x\r\n" in head


async def test_a_silent_server_is_unhealthy_within_the_timeout():
    """A server that takes the connection and says nothing costs one timeout."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    target = prober.ProbeTarget("127.0.0.1", {}, server.sockets[0].getsockname()[1])
    async with server:
        answer = await ask(probe(httpGet={"port": 80}, timeoutSeconds=1), target)
    assert not answer.healthy
    assert "within 1 s" in answer.detail


async def test_tcp_probes_connect_and_say_what_refused():
    """A port that takes connections is healthy; a closed one is named."""
    server, target, _ = await serving(b"")
    port = target.ports["http"]
    async with server:
        assert (await ask(probe(tcpSocket={"port": port}), target)).healthy
    refused = await ask(probe(tcpSocket={"port": port}), target)
    assert not refused.healthy
    assert str(port) in refused.detail


@pytest.mark.parametrize("kind", [{"httpGet": {"port": "nope"}}, {}])
async def test_a_probe_that_cannot_be_asked_is_unhealthy(kind):
    """An unknown port name or a kind of probe that we lack never counts as healthy."""
    assert not (await ask(probe(**kind), prober.ProbeTarget("127.0.0.1", {}))).healthy


@pytest.mark.parametrize("port", [0, 65536, 70_000, "70000", "admin"])
async def test_a_port_that_cannot_be_is_unhealthy(port):
    """It ends neither the probe nor the Pod, and no other port is asked instead."""
    target = prober.ProbeTarget("127.0.0.1", {"http": 8000})
    for action in ("httpGet", "tcpSocket"):
        got = await ask(probe(**{action: {"port": port}}), target)
        assert (got.healthy, str(port) in got.detail) == (False, True)


def test_readiness_is_asked_eagerly_until_the_first_success():
    """Soon after the start, ever slower to four times a second; after a success at its period."""
    schedule = ProbeSchedule(ProbeKind.READINESS, probe(periodSeconds=10, failureThreshold=2), 0.0)
    assert schedule.next_at == 0.0
    pauses = []
    for _ in range(4):
        now = schedule.next_at
        schedule.answered(False, now)
        pauses.append(round(schedule.next_at - now, 3))
    assert pauses == [0.05, 0.1, 0.2, EAGER_S]
    assert schedule.answered(True, 1.0)
    assert (schedule.healthy, schedule.next_at) == (True, 11.0)
    assert not schedule.answered(False, 11.0)
    assert schedule.answered(False, 21.0)
    assert schedule.healthy is False


def test_a_startup_probe_has_its_whole_time():
    """Eager questions don't use up failureThreshold: three periods of 10 s are three failures."""
    schedule = ProbeSchedule(
        ProbeKind.STARTUP, probe(periodSeconds=10, failureThreshold=3, initialDelaySeconds=5), 100.0
    )
    assert schedule.next_at == 105.0
    now = schedule.next_at
    while not schedule.answered(False, now):
        now = schedule.next_at
        assert now < 200
    assert 125.0 <= now < 125.0 + 4 * EAGER_S


def test_success_threshold_needs_that_many_in_a_row():
    """A failure in between starts the count again."""
    schedule = ProbeSchedule(ProbeKind.READINESS, probe(successThreshold=2), 0.0)
    verdicts = []
    for second, healthy in enumerate([True, False, True, True]):
        schedule.answered(healthy, float(second))
        verdicts.append(schedule.healthy)
    assert verdicts == [None, None, None, True]


async def test_https_probes_read_no_authorities(tmp_path, monkeypatch):
    """They check no certificate, so that a probe needs no TLS settings of its own."""
    made = pki.ensure(tmp_path, "127.0.0.1", datetime.datetime.now(datetime.UTC))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made.cert, made.key)
    server, target, heads = await serving(b"HTTP/1.1 200 OK\r\n\r\n", tls)
    monkeypatch.delattr(ssl, "create_default_context")
    prober._unverified.cache_clear()
    async with server:
        for _ in range(3):
            got = await ask(probe(httpGet={"port": "http", "scheme": "HTTPS"}), target)
            assert got.healthy, got.detail
    assert len(heads) == 3
    assert prober._unverified.cache_info().misses == 1
