"""A verified client certificate is enough, if the settings say so."""

import asyncio
import datetime
import functools
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headgate.dataplane.credentials import certificates
from headgate.gateway.listener import ClientConnection


async def start(start_guarded, tenants_file, monkeypatch, *names, **settings):
    """Every connection has a verified certificate with these names."""
    made = certificates.PeerCertificate(names)
    monkeypatch.setattr(certificates, "of", lambda transport: made)
    path = tenants_file(team_a={"subjects": ["spiffe://cluster.local/ns/a/*"]}, team_b={"models": ["x"]})
    chosen = {"auth_tenants_file": str(path), "auth_mtls": True} | settings
    return await start_guarded(chosen)


async def test_a_name_belongs_to_a_tenant(start_guarded, tenants_file, monkeypatch):
    """The first that does."""
    names = ("spiffe://cluster.local/ns/a/sa/app", "team-b")
    gateway = await start(start_guarded, tenants_file, monkeypatch, *names)
    assert (await gateway.ask()).status == 200
    assert gateway.metric("headgate_gateway_tenant_requests_total", tenant="team-a") == 1


async def test_a_default_takes_nobodys_place(start_guarded, tenants_file, monkeypatch):
    """It is for clients of whose names none belongs to a tenant."""
    gateway = await start(start_guarded, tenants_file, monkeypatch, "spiffe://other", "team-b")
    tenants_file(team_b={"models": ["x"]}, default={})
    gateway.shell.services.credentials.look()
    assert (await gateway.ask()).status == 403
    tenants_file(team_a={}, default={})
    gateway.shell.services.credentials.look()
    assert (await gateway.ask()).status == 200
    assert gateway.metric("headgate_gateway_tenant_requests_total", tenant="default", code="200") == 1


async def test_nobodys_name(start_guarded, tenants_file, monkeypatch):
    """Is forbidden, not unauthenticated."""
    gateway = await start(start_guarded, tenants_file, monkeypatch, "nobody")
    refused = await gateway.ask()
    assert (refused.status, refused.json["error"]["code"]) == (403, "unknown_tenant")


async def test_without_the_setting_it_counts_for_nothing(start_guarded, tenants_file, monkeypatch):
    """A key is needed then."""
    gateway = await start(start_guarded, tenants_file, monkeypatch, "team-a", auth_mtls=False)
    assert (await gateway.ask()).status == 401


async def test_a_key_goes_before_it(start_guarded, tenants_file, monkeypatch, keys_file):
    """A proxy may have a certificate, and its clients keys."""
    key = keys_file.make("team-b")
    gateway = await start(start_guarded, tenants_file, monkeypatch, "team-a")
    assert (await gateway.ask(x_api_key=key)).status == 403
    assert (await gateway.ask(x_api_key="wrong")).status == 200


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({}, ()),
        ({"subject": ((("organizationName", "o"),), (("commonName", "c"),))}, ("c",)),
        (
            {
                "subject": ((("commonName", "b"),),),
                "subjectAltName": (("DNS", "a"), ("IP Address", "::1"), ("URI", "spiffe://x"), ("DNS", "b")),
            },
            ("spiffe://x", "a", "b"),
        ),
    ],
)
def test_names_of_a_certificate(content, names):
    """The most specific first, each once."""
    assert certificates.names_of(content) == names


async def test_over_tls(start_guarded, tenants_file, tmp_path):
    """A certificate of the right authority opens, and a connection without one does not."""
    path = tenants_file(team_a={"subjects": ["spiffe://cluster.local/ns/a/*"]})
    gateway = await start_guarded({"auth_tenants_file": str(path), "auth_mtls": True})
    cert, key = _issued(tmp_path)
    theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=cert)
    theirs.load_cert_chain(cert, key)
    theirs.verify_mode = ssl.CERT_OPTIONAL
    make = functools.partial(ClientConnection, gateway.shell.services, gateway.shell.clients)
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, ssl=theirs)
    ours = ssl.create_default_context(cafile=cert)
    ours.check_hostname = False
    statuses = []
    for with_certificate in (False, True):
        if with_certificate:
            ours.load_cert_chain(cert, key)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=ours)
        writer.write(b"GET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n")
        statuses.append((await reader.readline()).split()[1])
        writer.close()
    server.close()
    assert statuses == [b"401", b"200"]


def _issued(directory):
    """A certificate that signed itself, with a name of team-a, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "app")])
    now = datetime.datetime.now(datetime.UTC)
    uri = x509.UniformResourceIdentifier("spiffe://cluster.local/ns/a/sa/app")
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([uri]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "tls.crt", directory / "tls.key"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    return paths
