"""Clients may be asked for a certificate, whose name the gateway knows."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM
POST = ("-H", "content-type: application/json", "-d", '{"model": "m", "prompt": "hello"}')


class Authority:
    """Signs certificates of clients."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clients")])
        made = self._builder(self.name, self.key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.file = folder / "clients.ca"
        self.file.write_bytes(made.sign(self.key, hashes.SHA256()).public_bytes(PEM))

    def _builder(self, subject, key):
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    def issue(self, common_name: str, *names: x509.GeneralName) -> tuple[str, ...]:
        """Arguments of curl with a certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        made = self._builder(subject, key).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(names), critical=False)
        cert, private = self.folder / f"{common_name}.crt", self.folder / f"{common_name}.key"
        cert.write_bytes(made.sign(self.key, hashes.SHA256()).public_bytes(PEM))
        private.write_bytes(
            key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        return ("--cert", str(cert), "--key", str(private))


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.mark.counts_calls
@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
async def test_a_certificate_may_be_required(start_gateway, endpoint, secure, authority, version):
    """Whoever has none is not served."""
    served = []
    endpoint.behave = lambda call: call.answer(b"hello")
    gateway = await start_gateway(endpoint)
    secured = await secure(gateway, client_certificates="required", client_ca_file=str(authority.file))
    gateway.shell.recorder.settled = _noting(gateway.shell.recorder.settled, served)
    for arguments, wanted in (
        ((), None),
        (authority.issue("team-a"), "team-a"),
        (authority.issue("x", x509.DNSName("job.example")), "job.example"),
        (
            authority.issue(
                "y", x509.DNSName("z"), x509.UniformResourceIdentifier("spiffe://example/ns/team")
            ),
            "spiffe://example/ns/team",
        ),
    ):
        code, output = await secured.curl(version, *arguments, *POST, path="/v1/completions")
        assert (code == 0) == (wanted is not None), output
        if wanted is not None:
            assert served.pop() == wanted
    assert not served


def _noting(settled, served):
    def note(exchange, now):
        certificate = exchange.request.parsed.peer.certificate
        served.append(certificate.names[0] if certificate is not None else None)
        settled(exchange, now)

    return note


async def test_a_certificate_of_another_authority_is_refused(
    start_gateway, endpoint, secure, authority, tmp_path
):
    """Also if none is required."""
    endpoint.behave = lambda call: call.answer(b"hello")
    secured = await secure(
        await start_gateway(endpoint), client_certificates="optional", client_ca_file=str(authority.file)
    )
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other").issue("mallory")
    assert (await secured.curl(*other, *POST, path="/v1/completions"))[0] != 0
    assert await secured.curl(*POST, path="/v1/completions") == (0, "hello")
    assert await secured.curl(*authority.issue("team-a"), *POST, path="/v1/completions") == (0, "hello")
