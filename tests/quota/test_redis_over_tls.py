"""A Redis that speaks TLS is believed only by its certificate; where that fails, what to do is told."""

import asyncio
import datetime
import random
import ssl
import threading

import pytest

import redis_rig
from headgate.api.marks import Address
from headgate.apiserver import pki
from headgate.flow.limits import Presence
from headgate.quota import redis_transport
from headgate.quota.lease_source import LeaseSource
from headgate.quota.redis_access import RedisAccess
from headgate.quota.redis_transport import RedisTransport
from headgate.quota.transport import Unreachable

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture(scope="module")
def identity(tmp_path_factory):
    """Of the server, for 127.0.0.1 and localhost."""
    return pki.ensure(tmp_path_factory.mktemp("identity"), "127.0.0.1", NOW)


@pytest.fixture(scope="module")
def other_authority(tmp_path_factory):
    return str(pki.ensure(tmp_path_factory.mktemp("other"), "127.0.0.1", NOW).ca)


def presence() -> Presence:
    return Presence(turn=1, held=0, weight=0.0)


@pytest.fixture(scope="module")
def port(identity, unused_tcp_port_factory):
    """Of a Redis that speaks TLS, and has a user `gateway` who may count limits only."""
    files = "--tls-cert-file", str(identity.cert), "--tls-key-file", str(identity.key)
    files += "--tls-ca-cert-file", str(identity.ca), "--tls-auth-clients", "no"
    user = "gateway on >secret ~kthena:ratelimit:* ~headgate:ratelimit:* +@all"
    port = unused_tcp_port_factory()
    listen = "--bind", "127.0.0.1", "127.0.0.2", "--tls-port", str(port)
    with redis_rig.redis_server(*listen, *files, "--user", *user.split()):
        yield port


@pytest.fixture
def exchange(port):
    """Asks Redis how many gateways there are, and says what it is told instead if it does not say so."""

    async def exchange(host: str = "127.0.0.1", **access: object) -> str:
        transport = RedisTransport(Address(host, port), RedisAccess(**access))
        try:
            _, standing = await transport.exchange([], presence())
        except Unreachable as error:
            return str(error)
        finally:
            await transport.close()
        assert standing.members
        return ""

    return exchange


async def test_a_certificate_of_the_authority_is_believed(exchange, identity):
    """With the file of the authority, by address and by name."""
    for host in ("127.0.0.1", "localhost"):
        assert await exchange(host, tls=True, ca_file=str(identity.ca)) == ""


async def test_authorities_are_read_beside_the_event_loop(exchange, identity, monkeypatch):
    """Those of a system take a tenth of a second, for which all requests would wait, whatever they ask."""
    threads = []
    real = ssl.create_default_context

    def create(**options):
        threads.append(threading.current_thread())
        return real(**options)

    monkeypatch.setattr(ssl, "create_default_context", create)
    assert await exchange(tls=True, ca_file=str(identity.ca)) == ""
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_with_a_file_nobody_else_is_believed(identity):
    """Nor whom the system believes."""
    (authority,) = RedisAccess(tls=True, ca_file=str(identity.ca)).context().get_ca_certs()
    assert authority["subject"] == authority["issuer"]


async def test_a_certificate_of_another_authority_is_not(exchange, other_authority):
    """What was expected is told, and where it is set."""
    for ca_file in (other_authority, None):
        told = await exchange(tls=True, ca_file=ca_file)
        assert "certificate verify failed" in told
        assert "redis_ca_file" in told


async def test_a_certificate_for_another_host_is_not(exchange, identity):
    """The address that the route names has to be in it."""
    told = await exchange("127.0.0.2", tls=True, ca_file=str(identity.ca))
    assert "127.0.0.2" in told
    assert "certificate" in told


async def test_a_file_that_is_not_there_is_named(exchange, tmp_path):
    """So is one that has no certificate."""
    empty = tmp_path / "empty.crt"
    empty.write_text("")
    for file in (tmp_path / "missing.crt", empty):
        told = await exchange(tls=True, ca_file=str(file))
        assert f"redis_ca_file {file}" in told


async def test_a_client_without_tls_is_told_of_it(exchange):
    """A server that speaks TLS breaks off what is not; that it may be so is said."""
    told = await exchange()
    assert "redis_tls" in told


async def test_tls_to_a_server_without_it_is_told(way, identity, monkeypatch):
    """The same the other way round, after a while in which it says nothing."""
    monkeypatch.setattr(redis_transport, "TIMEOUT_S", 0.1)
    transport = RedisTransport(Address.parse(way.address), RedisAccess(tls=True, ca_file=str(identity.ca)))
    with pytest.raises(Unreachable, match="redis_tls"):
        await transport.exchange([], presence())
    await transport.close()


async def test_a_user_has_to_be_the_right_one(exchange, identity):
    """Name and password go over TLS as well; a wrong one is told, and what they are taken from."""
    tls = {"tls": True, "ca_file": str(identity.ca)}
    assert await exchange(**tls, username="gateway", password="secret") == ""
    told = await exchange(**tls, username="gateway", password="wrong")
    assert "WRONGPASS" in told or "invalid username-password" in told
    assert "REDIS_PASSWORD" in told


async def test_gateways_count_together_over_tls(port, identity, eventually):
    """The lease of one is not there for the other."""
    access = RedisAccess(tls=True, ca_file=str(identity.ca), username="gateway", password="secret")
    loop = asyncio.get_running_loop()
    sources = []
    for seed in range(2):
        transport = RedisTransport(Address("127.0.0.1", port), access)
        sources.append(LeaseSource("redis", transport, loop, random.Random(seed), 30.0))
        sources[-1].start()
    one, other = (source.budget("kthena:ratelimit:m:input", 1_000, 30 * 86_400) for source in sources)
    asked = asyncio.Event()
    assert sources[0].ask(one, 600, asked.set) is not None
    await asked.wait()
    assert one.take(600, loop.time())
    asked.clear()
    assert sources[1].ask(other, 600, asked.set) is not None
    await asked.wait()
    assert not other.take(600, loop.time())
    for source in sources:
        assert not source.trouble
        await source.close()
