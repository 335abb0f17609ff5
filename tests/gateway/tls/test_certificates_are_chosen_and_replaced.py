"""Certificates are chosen by the name that clients ask for, and replaced when their files change."""

import asyncio
import logging
import os
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from headgate.gateway import gauges
from headgate.gateway.settings.tls import Tls
from headgate.gateway.tls import served
from headgate.gateway.tls.told import problems


async def fingerprint(secured, name: str = "localhost") -> str:
    """SHA-256 of the certificate that a client gets for a name."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(
        "127.0.0.1", secured.port, ssl=context, server_hostname=name or None
    )
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return x509.load_der_x509_certificate(found).fingerprint(hashes.SHA256()).hex()


def fingerprint_of(files) -> str:
    return x509.load_pem_x509_certificate(files.cert.read_bytes()).fingerprint(hashes.SHA256()).hex()


@pytest.fixture
def quickly(monkeypatch):
    """Files are looked at all the time."""
    monkeypatch.setattr(served, "POLL_S", 0.01)


@pytest.fixture
async def followed(gateway, secure, quickly):
    """Serves files, and follows them."""
    tasks = []

    async def start(*files):
        secured = await secure(
            gateway,
            files[0],
            cert_files=tuple(str(each.cert) for each in files),
            key_files=tuple(str(each.key) for each in files),
        )
        tasks.append(asyncio.create_task(secured.served.follow_files()))
        return secured

    yield start
    for task in tasks:
        task.cancel()


async def until(holds) -> None:
    async with asyncio.timeout(20.0):
        while not await holds():
            await asyncio.sleep(0.01)


@pytest.fixture
def s_client(run_program):
    """OpenSSL's client, connected to a gateway: its exit code and output."""

    async def run(secured, *arguments: str) -> tuple[int, str]:
        address = f"127.0.0.1:{secured.port}"
        return await run_program("openssl", "s_client", "-connect", address, *arguments)

    return run


async def test_each_name_has_its_certificate(gateway, secure, issuing, s_client):
    """Wildcards too; for any other name, and without one, it is the first."""
    files = [
        issuing.issue("a.example", as_="a"),
        issuing.issue("b.example", "*.b.example", as_="b"),
    ]
    secured = await secure(
        gateway,
        files[0],
        cert_files=tuple(str(each.cert) for each in files),
        key_files=tuple(str(each.key) for each in files),
    )
    first, second = map(fingerprint_of, files)
    names = {"a.example": first, "B.example": second, "www.b.example": second, "c.example": first}
    for name, wanted in names.items():
        assert await fingerprint(secured, name) == wanted, name
    code, output = await s_client(secured, "-noservername")
    assert code == 0
    assert "CN = a.example" in output


async def test_files_that_change_are_served(followed, issuing):
    """Connections that are open stay."""
    secured = await followed(issuing.issue("localhost", "127.0.0.1"))
    reader, writer = await secured.open("http/1.1")
    new = issuing.issue("localhost", "127.0.0.1")

    async def is_new() -> bool:
        return await fingerprint(secured) == fingerprint_of(new)

    await until(is_new)
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")
    assert b"200 OK" in await reader.readuntil(b"\r\n")
    writer.close()


async def test_links_that_move_are_followed(followed, issuing, tmp_path):
    """As in the volume of a Secret, whose data is a link that is replaced."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
    certificates = type(issuing)
    first = certificates(tmp_path / "1").issue("localhost")
    second = certificates(tmp_path / "2").issue("localhost")
    (tmp_path / "data").symlink_to("1")
    through = type(first)(*(tmp_path / "data" / path.name for path in (first.cert, first.key, first.ca)))
    secured = await followed(through)
    assert await fingerprint(secured) == fingerprint_of(first)
    (tmp_path / "data.new").symlink_to("2")
    os.replace(tmp_path / "data.new", tmp_path / "data")

    async def is_second() -> bool:
        return await fingerprint(secured) == fingerprint_of(second)

    await until(is_second)


async def test_a_pair_that_is_not_valid_is_told_and_not_served(
    followed, gateway, issuing, caplog, eventually
):
    """The last valid one is, until there is another."""
    gauges.add_gauges(gateway.registry, gateway.shell)
    files = issuing.issue("localhost")
    secured = await followed(files)
    valid = fingerprint_of(files)
    name = "headgate_gateway_tls_certificate_valid"
    assert gateway.metric(name) == 1
    other = issuing.issue("localhost", as_="other")
    with caplog.at_level(logging.ERROR):
        files.key.write_bytes(other.key.read_bytes())
        await eventually(lambda: secured.served.faults)
    assert "the last valid certificate" in caplog.text
    assert str(files.key) in caplog.text
    assert gateway.metric(name) == 0
    assert await fingerprint(secured) == valid
    files.cert.write_bytes(other.cert.read_bytes())
    await eventually(lambda: not secured.served.faults)
    assert await fingerprint(secured) == fingerprint_of(other)
    assert gateway.metric(name) == 1


async def test_metrics_tell_when_certificates_expire(followed, gateway, issuing):
    gauges.add_gauges(gateway.registry, gateway.shell)
    files = issuing.issue("localhost", valid_days=3)
    await followed(files)
    ends = x509.load_pem_x509_certificate(files.cert.read_bytes()).not_valid_after_utc.timestamp()
    name = "headgate_gateway_tls_certificate_expiry_timestamp_seconds"
    assert gateway.metric(name, source=str(files.cert)) == ends


async def test_versions_and_ciphers_are_modern(gateway, secure, issuing, s_client):
    """TLS 1.2 with forward secrecy, and TLS 1.3; a setting allows only the latter."""
    secured = await secure(gateway)
    for version in ("-tls1_2", "-tls1_3"):
        code, output = await s_client(secured, version)
        assert code == 0, output
    for ciphers in ("AES128-SHA", "AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-SHA"):
        code, output = await s_client(secured, "-tls1_2", "-cipher", ciphers)
        assert code != 0, output
    assert (await s_client(secured, "-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"))[0] != 0
    newest = await secure(gateway, min_version="1.3")
    assert (await s_client(newest, "-tls1_2"))[0] != 0
    assert (await s_client(newest, "-tls1_3"))[0] == 0


@pytest.mark.parametrize("name", ["cert_files", "key_files", "client_ca_file"])
def test_files_are_read_without_waiting(issuing, tmp_path, name):
    """A pipe has no end, and perhaps no beginning."""
    files = issuing.issue("localhost")
    os.mkfifo(tmp_path / "pipe")
    told = {"cert_files": (str(files.cert),), "key_files": (str(files.key),), "client_ca_file": str(files.ca)}
    told |= {name: str(tmp_path / "pipe") if name == "client_ca_file" else (str(tmp_path / "pipe"),)}
    found = problems(Tls(**told, client_certificates="required"))
    assert any("pipe" in why and "not a regular file" in why for _, why in found)
