import asyncio
import os
import ssl
from pathlib import Path

import pytest

from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings, tls

CHAT = "/v1/chat/completions"


@pytest.fixture
def certificate(tmp_path):
    """Writes a certificate for a host and its key to two files, the same each time."""
    certfile, keyfile = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write(host="127.0.0.1"):
        for file, data in zip((certfile, keyfile), tls.make(host), strict=True):
            (tmp_path / "new").write_bytes(data)
            os.replace(tmp_path / "new", file)
        return {"ssl_certfile": str(certfile), "ssl_keyfile": str(keyfile)}

    return write


def spoil(files):
    """Leaves the certificate half written."""
    Path(files["ssl_certfile"]).write_text("-----BEGIN CERTIFICATE-----\nMIIB")


async def handshake(server, context):
    """Connects as a client that verifies by `context`; the server's certificate."""
    port = server.client.base_url.port
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()


async def test_a_certificate_is_made_up(serve):
    """Requests and streams work over it, for clients that do not ask who signed."""
    async with serve(self_signed_certs=True) as server:
        body = {"model": "tiny", "messages": [{"role": "user", "content": "How deep?"}], "max_tokens": 5}
        answer = await server.client.post(CHAT, json=body)
        assert answer.json()["usage"]["completion_tokens"] == 5
        streamed = await server.client.post(CHAT, json=body | {"stream": True})
        assert streamed.text.endswith("data: [DONE]\n\n")
        with pytest.raises(ssl.SSLCertVerificationError):
            await handshake(server, ssl.create_default_context())


async def test_a_given_certificate_is_verified_by_its_issuer(serve, certificate):
    """Its authority is in the same file, and it covers the address."""
    files = certificate()
    async with serve(**files) as server:
        assert await handshake(server, ssl.create_default_context(cafile=files["ssl_certfile"]))


async def test_a_new_certificate_is_taken_over_while_it_runs(serve, certificate, monkeypatch):
    """A file that is half written changes nothing; connections that come after a whole one have it."""
    monkeypatch.setattr(tls, "EVERY_S", 0.01)
    files = certificate()
    trusts_all = ssl.create_default_context()
    trusts_all.check_hostname = False
    trusts_all.verify_mode = ssl.CERT_NONE
    async with serve(**files) as server, asyncio.timeout(30):
        first = await handshake(server, trusts_all)
        certificate()
        while await handshake(server, trusts_all) == first:
            pass
        second = await handshake(server, trusts_all)
        held = tls.Certificate(files["ssl_certfile"], files["ssl_keyfile"])
        spoil(files)
        with pytest.raises(tls.CertificateError, match=r"cannot use .*tls\.crt with .*tls\.key"):
            held.reload()
        assert await handshake(server, trusts_all) == second


async def test_pairs_meet_over_tls(serve):
    """The decode engine reads the prompt by https, where both speak it."""
    async with serve(self_signed_certs=True) as prefill, serve(self_signed_certs=True) as decode:
        body = {"model": "tiny", "prompt": [7] * 40, "max_tokens": 1}
        first = await prefill.client.post(
            "/v1/completions", json=body | {"kv_transfer_params": {"do_remote_decode": True}}
        )
        params = first.json()["kv_transfer_params"]
        second = await decode.client.post(
            "/v1/completions", json=body | {"max_tokens": 4, "kv_transfer_params": params}
        )
        assert second.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 39


def test_settings_of_tls_are_checked():
    """A certificate needs its key, and is not made up too; all is told at once."""
    engine = PROFILES["fast"].config
    with pytest.raises(ValueError, match="ssl_certfile: needs ssl_keyfile too; self_signed_certs: leave it"):
        ServerSettings(engine=engine, ssl_certfile="tls.crt", self_signed_certs=True)
    with pytest.raises(ValueError, match="ssl_keyfile: needs ssl_certfile too"):
        ServerSettings(engine=engine, ssl_keyfile="tls.key")


async def test_files_that_are_not_there_are_named(serve, tmp_path):
    """Before anything is served."""
    with pytest.raises(OSError, match=r"cannot use .*no\.crt with .*no\.key: .*No such file"):
        async with serve(ssl_certfile=str(tmp_path / "no.crt"), ssl_keyfile=str(tmp_path / "no.key")):
            pass
