"""Gateways that serve TLS and HTTP/2, and real clients of them."""

import asyncio
import contextlib
import datetime
import functools
import socket
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "driver"))

from headgate.gateway import accepting, redirecting
from headgate.gateway.listener import ClientConnection
from headgate.gateway.settings.tls import Tls
from headgate.gateway.tls.served import Served
from headgate.serving import certificates

CURL_S = 20.0


@dataclass
class Files:
    cert: Path
    key: Path
    ca: Path


class Certificates:
    """Issues certificates into a directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def issue(self, *names: str, as_: str = "server", valid_days: int = 30) -> Files:
        """Write a certificate for these names, over one of the same file name."""
        now = datetime.datetime.now(datetime.UTC)
        issued = certificates.issue(names[0], names, now, datetime.timedelta(days=valid_days))
        files = Files(*(self.folder / f"{as_}.{ending}" for ending in ("crt", "key", "ca")))
        for path, content in zip((files.ca, files.cert, files.key), issued, strict=True):
            new = path.with_suffix(".new")
            new.write_bytes(content)
            new.replace(path)
        return files


@pytest.fixture
def issuing(tmp_path):
    return Certificates(tmp_path)


@dataclass
class Secured:
    """A port of a gateway with TLS."""

    port: int
    served: Served
    files: Files

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    async def curl(self, *arguments: str, path: str = "/v1/models") -> tuple[int, str]:
        """Exit code and output of curl, which verifies the certificate."""
        return await run("curl", "-sS", "--cacert", str(self.files.ca), *arguments, f"{self.url}{path}")

    def context(self, *protocols: str) -> ssl.SSLContext:
        """That of a client that trusts the certificate."""
        context = ssl.create_default_context(cafile=str(self.files.ca))
        if protocols:
            context.set_alpn_protocols(protocols)
        return context

    async def open(self, *protocols: str, name: str = "localhost"):
        """A connection that is secured."""
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context(*protocols), server_hostname=name
        )


async def run(*command: str, given: bytes = b"") -> tuple[int, str]:
    """Exit code and output of a program."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(CURL_S):
            output, _ = await process.communicate(given)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, output.decode(errors="replace")


@pytest.fixture
def run_program():
    """Runs a program: its exit code and output."""
    return run


@pytest.fixture
async def secure(issuing):
    """Lets a gateway listen with TLS on another port."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(
            gateway, files: Files | None = None, *, redirects: bool = False, **told: object
        ) -> Secured:
            files = files or issuing.issue("localhost", "127.0.0.1")
            if "cert_files" not in told and "secrets" not in told:
                told |= {"cert_files": (str(files.cert),), "key_files": (str(files.key),)}
            served = Served(Tls(**told))
            gateway.shell.clients.certificates = served
            shell = gateway.shell
            make = functools.partial(ClientConnection, shell.services, shell.clients)
            with socket.create_server(("127.0.0.1", 0)) as sock:
                insecure = redirecting.Insecure(shell.services.loop, sock.getsockname()[1])
                plain = insecure.protocol if redirects else None
                server = await asyncio.get_running_loop().create_server(
                    accepting.protocols(shell.clients, make, served.names.context, plain=plain),
                    sock=sock.dup(),
                )
            stack.callback(insecure.close)
            stack.callback(server.close)
            return Secured(server.sockets[0].getsockname()[1], served, files)

        yield start
