"""Connections to a node's API: who is admitted, and what the others can use."""

import asyncio
import contextlib
import datetime
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headgate import serving
from headgate.node.kubelet import callers, requests, reviews, server
from headgate.serving import certificates

PATIENCE_S = 60.0


class Reviewer:
    """Stands for the API server: the token is the name of the user, of whom `reader` may read."""

    is_away = False

    async def caller(self, token):
        if self.is_away:
            raise reviews.ReviewError("the API server is away")
        return callers.Caller(token) if token in ("reader", "stranger") else None

    async def allows(self, caller, right):
        return caller.name in ("reader", "by-certificate") and right.verb == "get"


class Node:
    """A server on loopback that answers `ok`. /follow never ends, nor does /flood, which does not pause."""

    def __init__(self, context):
        self.reviewer = Reviewer()
        self.following = self.pieces = 0
        listener = serving.listening_socket("127.0.0.1", 0)
        self.server = server.Server(listener, lambda: context, self.reviewer, self.answer)
        self.serving = asyncio.create_task(self.server.run())

    async def stop(self):
        self.serving.cancel()
        await asyncio.wait((self.serving,))
        assert self.serving.cancelled()

    async def answer(self, request):
        match request.path:
            case ["follow"]:
                return requests.Response(self.follow(b"line\n", 0.01))
            case ["flood"]:
                return requests.Response(self.follow(bytes(1 << 16), 0))
        return requests.Response(b"ok")

    async def follow(self, piece, pause_s):
        self.following += 1
        try:
            while True:
                yield piece
                await asyncio.sleep(pause_s)
                self.pieces += 1
        finally:
            self.following -= 1

    async def connect(self, certificate=None):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate:
            context.load_cert_chain(*certificate)
        return await asyncio.open_connection("127.0.0.1", self.server.port, ssl=context)

    async def ask(self, path="/", token="", certificate=None):
        """Status and text of the response."""
        reader, writer = await self.connect(certificate)
        line = f"authorization: Bearer {token}\r\n" if token else ""
        writer.write(f"GET {path} HTTP/1.1\r\nhost: node\r\n{line}\r\n".encode())
        async with asyncio.timeout(PATIENCE_S):
            response = await reader.read()
        writer.close()
        head, _, body = response.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()


class Authority:
    """Signs client certificates."""

    def __init__(self, directory):
        self.directory = directory
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, directory.name)])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        signed = self.sign(self.name, self.key.public_key(), constraints)
        self.pem = signed.public_bytes(serialization.Encoding.PEM).decode()

    def sign(self, name, key, constraints):
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self.name).public_key(key)
        builder = builder.serial_number(x509.random_serial_number()).add_extension(constraints, critical=True)
        builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
        return builder.not_valid_after(now + datetime.timedelta(hours=1)).sign(self.key, hashes.SHA256())

    def issue(self, user):
        """Files of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
        signed = self.sign(name, key.public_key(), x509.BasicConstraints(ca=False, path_length=None))
        pem, files = serialization.Encoding.PEM, (self.directory / "crt", self.directory / "key")
        files[0].write_bytes(signed.public_bytes(pem))
        form = serialization.PrivateFormat.PKCS8
        files[1].write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
        return files


@pytest.fixture
def authorities(tmp_path):
    """One that the node trusts, and another."""
    for name in ("trusted", "other"):
        (tmp_path / name).mkdir()
    return Authority(tmp_path / "trusted"), Authority(tmp_path / "other")


@pytest.fixture
async def node(tmp_path, authorities):
    issued = certificates.issue("node", ("127.0.0.1",), datetime.datetime.now(datetime.UTC))
    (tmp_path / "crt").write_bytes(issued.cert)
    (tmp_path / "key").write_bytes(issued.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    context.load_verify_locations(cadata=authorities[0].pem)
    context.verify_mode = ssl.CERT_OPTIONAL
    started = Node(context)
    yield started
    await started.stop()
    started.server.close()


async def test_nobody_is_admitted_without_a_known_token(node):
    assert (await node.ask())[0] == 401
    assert (await node.ask(token="unknown"))[0] == 401
    assert (await node.ask(token="reader")) == (200, "ok")


async def test_a_right_is_needed(node):
    status, message = await node.ask("/pods", token="stranger")
    assert (status, message) == (
        403,
        'user "stranger" has no right to get nodes/pods or nodes/proxy of this node\n',
    )
    assert (await node.ask("/exec/ns/pod/c?command=id", token="reader"))[0] == 403


async def test_a_certificate_of_a_trusted_authority_is_enough(node, authorities):
    trusted, other = authorities
    assert await node.ask(certificate=trusted.issue("by-certificate")) == (200, "ok")
    assert (await node.ask(certificate=trusted.issue("somebody")))[0] == 403
    with pytest.raises((OSError, IndexError)):  # TLS ends before or after the request was sent
        await node.ask(certificate=other.issue("by-certificate"))
    assert (await node.ask(token="reader"))[0] == 200


async def test_nobody_is_admitted_while_the_api_server_is_away(node):
    node.reviewer.is_away = True
    assert await node.ask(token="reader") == (503, "the API server is away\n")


async def test_silent_connections_lock_nobody_out(node, monkeypatch):
    """Neither before their TLS handshake nor after; the oldest make room."""
    monkeypatch.setattr(server, "MAX_STRANGERS", 4)
    async with contextlib.AsyncExitStack() as stack:
        for number in range(20):
            if number % 2:
                _, writer = await node.connect()
            else:
                _, writer = await asyncio.open_connection("127.0.0.1", node.server.port)
            stack.callback(writer.close)
            assert await node.ask(token="reader") == (200, "ok")


async def test_a_request_must_arrive_in_time(node, monkeypatch):
    monkeypatch.setattr(requests, "HEAD_S", 0.1)
    reader, writer = await node.connect()
    writer.write(b"GET / HTTP/1.1\r\n")
    async with asyncio.timeout(PATIENCE_S):
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
    writer.close()


async def test_a_head_that_never_ends_is_refused(node):
    reader, writer = await node.connect()
    writer.write(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000)
    with contextlib.suppress(ConnectionError):  # it need not read all to say so
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
    writer.close()


async def test_callers_have_a_limit(node, monkeypatch):
    """And a follower that disconnects makes room for the next."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 2)
    followers = [await node.connect() for _ in range(2)]
    for reader, writer in followers:
        writer.write(b"GET /follow HTTP/1.1\r\nhost: node\r\nauthorization: Bearer reader\r\n\r\n")
        await reader.readuntil(b"line\n")
    status, message = await node.ask(token="reader")
    assert (status, message) == (429, "the node serves 2 connections already: try again\n")
    followers[0][1].transport.abort()
    async with asyncio.timeout(PATIENCE_S):
        while node.following == 2 or (await node.ask(token="reader"))[0] != 200:
            await asyncio.sleep(0.01)
    followers[1][1].close()


async def test_a_client_that_reads_nothing_does_not_hold_up_the_end(node, monkeypatch):
    monkeypatch.setattr(server, "_CLOSE_S", PATIENCE_S)
    _, writer = await node.connect()
    writer.transport.pause_reading()
    writer.write(b"GET /flood HTTP/1.1\r\nhost: node\r\nauthorization: Bearer reader\r\n\r\n")
    async with asyncio.timeout(PATIENCE_S):
        sent = -1
        while sent != node.pieces or not sent:
            sent = node.pieces
            await asyncio.sleep(0.5)
        await node.server.until_idle(0.1)
    async with asyncio.timeout(20):  # the event loop itself gives up after 30 s
        await node.stop()
    assert node.following == 0
    writer.close()
