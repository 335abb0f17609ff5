"""A real Prometheus with TLS: its certificate is verified, and ours is shown to it."""

import datetime
import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headgate.controllers.prometheus_client import PrometheusClient, QueryError
from headgate.planning.settings_map import PrometheusSettings

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates, into files."""

    def __init__(self, place: Path, name: str) -> None:
        self._place = place
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(self._name, self._key.public_key()).add_extension(constraint, critical=True)
        self.path = place / f"{name}.pem"
        self.path.write_bytes(self._pem(builder))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        serial = x509.random_serial_number()
        return x509.CertificateBuilder(self._name, subject, key, serial, NOW - DAY, NOW + DAY)

    def _pem(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def signed(self, name: str, *names: x509.GeneralName, password: bytes = b"") -> dict[str, str]:
        """The files of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key())
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        cert, secret = self._place / f"{name}.crt", self._place / f"{name}.key"
        cert.write_bytes(self._pem(builder))
        encryption = (
            serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        )
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        secret.write_bytes(key.private_bytes(encoding, form, encryption))
        return {"cert": str(cert), "key": str(secret)}


@pytest.fixture
async def told_by():
    """What a query with these settings gives: 1, or the error."""
    made = []

    async def told(client: PrometheusClient) -> str:
        made.append(client)
        try:
            data = await client.ask("vector(1)")
        except QueryError as error:
            return str(error)
        assert data.result[0]["value"][1] == "1"
        return ""

    yield told
    for each in made:
        await each.close()


async def test_certificates_of_servers_are_verified(prometheus_of, told_by, tmp_path):
    """Against the authorities of a file, for the address or another name; unless that is turned off."""
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    server = ours.signed(
        "server", x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("prometheus.monitoring")
    )
    tls = {"cert_file": server["cert"], "key_file": server["key"]}
    prometheus = prometheus_of({"tls_server_config": tls})
    await prometheus.start()

    async def told(**settings: object) -> str:
        return await told_by(PrometheusClient(PrometheusSettings(url=prometheus.url, **settings)))

    assert await told(ca_path=str(ours.path)) == ""
    assert await told(skips_verification=True) == ""
    assert await told(ca_path=str(ours.path), server_name="prometheus.monitoring") == ""
    assert "certificate" in await told()
    assert "certificate" in await told(ca_path=str(other.path))
    assert "certificate" in await told(ca_path=str(ours.path), server_name="another.monitoring")
    absent = str(tmp_path / "absent.pem")
    assert f"no certificates can be read from {absent}" in await told(ca_path=absent)
    assert f"no certificates can be read from {server['key']}" in await told(ca_path=server["key"])


async def test_servers_may_want_a_certificate(prometheus_of, told_by, tmp_path):
    """One that is renewed in its files is used without a restart."""
    ours, other = Authority(tmp_path, "ours"), Authority(tmp_path, "other")
    server = ours.signed("server", x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    tls = {
        "cert_file": server["cert"],
        "key_file": server["key"],
        "client_ca_file": str(ours.path),
        "client_auth_type": "RequireAndVerifyClientCert",
    }
    prometheus = prometheus_of({"tls_server_config": tls})
    await prometheus.start()

    def client(cert: dict[str, str] | None) -> PrometheusClient:
        paths = {"client_cert_path": cert["cert"], "client_key_path": cert["key"]} if cert else {}
        return PrometheusClient(PrometheusSettings(url=prometheus.url, ca_path=str(ours.path), **paths))

    assert await told_by(client(ours.signed("controller"))) == ""
    assert "Prometheus cannot be asked" in await told_by(client(None))
    renewed = client(other.signed("renewed"))
    assert "Prometheus cannot be asked" in await told_by(renewed)
    ours.signed("renewed")
    assert await told_by(renewed) == ""
    locked = await told_by(client(ours.signed("locked", password=b"secret")))
    assert "are no certificate" in locked
