"""A gateway whose model "big" may be taken over by providers: local HTTPS servers with a CA of their own."""

import datetime
import ipaddress
import json
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headgate import api, routing
from headgate.api.fallbacks import USUAL

sys.path.insert(0, str(Path(__file__).parents[2] / "routing" / "gateway_api" / "driver"))

KEY = "sk-never-shown-0123456789"
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates of providers."""

    def __init__(self, name):
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key, NOW + DAY)
        constraint = x509.BasicConstraints(ca=True, path_length=None)
        made = builder.add_extension(constraint, critical=True).sign(self._key, hashes.SHA256())
        self.pem = made.public_bytes(serialization.Encoding.PEM).decode()

    def _builder(self, subject, key, until):
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - 5 * DAY)
            .not_valid_after(until)
        )

    def context(self, directory, name="127.0.0.1", until=NOW + DAY):
        """The context of a server with a certificate for this name or address."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(x509.Name([]), key, until)
        try:
            alternative = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            alternative = x509.DNSName(name)
        builder = builder.add_extension(x509.SubjectAlternativeName([alternative]), critical=True)
        plain = serialization.NoEncryption()
        path = directory / "provider.pem"
        path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
            + builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context


@dataclass
class Outside:
    """Files of providers, and gateways that have them."""

    directory: object
    ours: Authority
    other: Authority
    _start_gateway: object
    _start_endpoint: object

    async def provider(self, behave=None, *, authority=None, **certificate):
        """An HTTPS server."""
        context = (authority or self.ours).context(self.directory, **certificate)
        return await self._start_endpoint(behave=behave, tls=context)

    def write(self, **providers):
        """The file of providers; each has the usual settings, besides those given here, and one that is None
        is left out."""
        key, ca = self.directory / "key", self.directory / "ca.pem"
        key.touch(mode=0o600)
        key.write_text(KEY + "\n")
        ca.write_text(self.ours.pem)
        usual = {"shape": "openai", "models": ["mini"], "key": {"file": str(key)}, "ca_file": str(ca)}
        found = {
            name: {field: value for field, value in (usual | given).items() if value is not None}
            for name, given in providers.items()
        }
        path = self.directory / "providers.yaml"
        path.write_text(json.dumps(found))  # JSON is YAML
        return path

    async def gateway(self, endpoint, *names, big=(), settings=None, reasons=USUAL, **given):
        """A gateway with the provider "cloud" at this server; "big" falls back to `names`."""
        path = self.write(cloud={"url": f"https://127.0.0.1:{endpoint.port}"} | given)
        gateway = await self._start_gateway(settings={"providers_file": str(path)} | (settings or {}))
        self.serve(gateway, *(names or ("provider=cloud",)), big=big, reasons=reasons)
        return gateway

    def serve(self, gateway, *names, big=(), reasons=USUAL):
        parsed = api.fallbacks.parse({api.marks.FALLBACK: ",".join(names)}) if names else None
        key = api.ObjectRef("ModelServer", "default", "big")
        endpoints = tuple(
            routing.Endpoint(f"default/pod-{place}", "127.0.0.1", each.port) for place, each in enumerate(big)
        )
        route = routing.Route(
            key=api.ObjectRef("ModelRoute", "default", "big"),
            name="default/big",
            model="big",
            adapters=(),
            rules=(routing.Rule("rule", None, (routing.Target(key, 1),)),),
            fallback=routing.Fallback(
                next=tuple(routing.Next(each.model, None, each.provider) for each in parsed.next),
                reasons=frozenset(reasons),
            )
            if parsed is not None
            else None,
        )
        pools = {key: routing.Pool(key=key, endpoints=endpoints)}
        gateway.shell.use(routing.Snapshot(models={"big": (route,)}, pools=pools))
        gateway.shell.plane.is_ready = True


@pytest.fixture(scope="session")
def authorities():
    return Authority("ours"), Authority("other")


@pytest.fixture
def outside(tmp_path, authorities, start_gateway, start_endpoint):
    return Outside(tmp_path, *authorities, start_gateway, start_endpoint)


@pytest.fixture(name="provider_key")
def _provider_key():
    """The key of all providers."""
    return KEY
