import asyncio
from pathlib import Path

import pytest

from headgate.loadtest import HttpError, Target, served_model
from headgate.simulator.server import tls


@pytest.fixture
def certificate(tmp_path: Path) -> dict[str, str]:
    """Files with a certificate and its key."""
    files = {"ssl_certfile": tmp_path / "tls.crt", "ssl_keyfile": tmp_path / "tls.key"}
    for file, data in zip(files.values(), tls.make("127.0.0.1"), strict=True):
        file.write_bytes(data)
    return {name: str(file) for name, file in files.items()}


async def test_a_certificate_is_verified(engine, certificate: dict[str, str]) -> None:
    """By its authority, or not at all if told so."""
    async with engine(**certificate) as url:
        trusting = Target(url=url, cacert=certificate["ssl_certfile"])
        assert await served_model(trusting.server()) == "tiny"
        assert await served_model(Target(url=url, is_insecure=True).server()) == "tiny"
        with pytest.raises(HttpError, match=r"cannot connect: .*certificate") as raised:
            await served_model(Target(url=url).server())
    assert raised.value.kind == "tls"


async def test_requests_are_sent_over_tls(engine, measured, certificate: dict[str, str]) -> None:
    """On connections that are kept open."""
    from headgate.traffic.traces import TimedRequest

    requests = [TimedRequest(at_s=0.05 * at, prompt_tokens=8, output_tokens=3) for at in range(4)]
    async with engine(**certificate) as url:
        tally = await measured(url, requests, target={"cacert": certificate["ssl_certfile"]})
    assert (tally.requests, tally.errors) == (4, {})


async def test_a_server_that_does_not_finish_the_handshake_is_given_up(
    raw_server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time limit for connecting."""
    from headgate.loadtest import http

    monkeypatch.setattr(http, "CONNECT_S", 0.2)

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_server(reply) as url:
        server = Target(url=url.replace("http:", "https:")).server()
        with pytest.raises(HttpError, match=r"cannot connect within 0\.2 s"):
            await served_model(server)
