"""A server in front of Prometheus, by TLS and with a token, which can be faulty."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import httpx2

TOKEN: Final = "token-of-the-planner"
FAULTS: Final = {
    "slow": "did not answer within",
    "nonsense": "with no result",
    "another type": "not a vector",
    "an error": "rejects the query",
    "disconnects": "cannot be asked",
    "stopped": "cannot be asked",
}
"""What it may do, and what the planner says then."""
_ANSWERS: Final = {
    "nonsense": (200, b"<html>Welcome</html>"),
    "another type": (200, b'{"status":"success","data":{"resultType":"scalar","result":[1,"3"]}}'),
    "an error": (422, b'{"status":"error","errorType":"execution","error":"query timed out"}'),
}


class Front:
    """It passes queries on, unless a fault is set."""

    def __init__(self, behind: str, certificates: Path, port: int) -> None:
        self.behind = behind
        self.url = f"https://127.0.0.1:{port}"
        self.token = TOKEN
        self.answered = 0
        """Queries that Prometheus has answered."""
        self.fault = ""
        self.ended = threading.Event()
        self._port = port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def faulty(self, fault: str) -> Iterator[None]:
        """What it does during the block."""
        if fault == "stopped":
            self.stop()
        self.fault = fault
        try:
            yield
        finally:
            self.fault = ""
            if fault == "stopped":
                self.listen()

    def listen(self) -> None:
        handler = type("Handler", (_Handler,), {"front": self})
        self._server = _Server(("127.0.0.1", self._port), handler)
        self._server.socket = self._context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def stop(self) -> None:
        """Nobody listens, and all connections are closed."""
        assert self._server is not None
        assert self._thread is not None
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self.ended.clear()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, *_: object) -> None:
        """Clients may disconnect."""


class _Handler(BaseHTTPRequestHandler):
    front: Front
    # Without keep-alive: whoever asks meets the fault of the moment.
    protocol_version = "HTTP/1.0"

    def do_POST(self) -> None:
        front = self.front
        form = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Authorization"] != f"Bearer {front.token}":
            self._send(401, b"unauthorized")
        elif front.fault == "slow":
            front.ended.wait(20)
        elif front.fault in _ANSWERS:
            self._send(*_ANSWERS[front.fault])
        elif not front.fault:
            kind = {"content-type": "application/x-www-form-urlencoded"}
            with contextlib.suppress(httpx2.TransportError):  # it is stopped: the connection ends
                answer = httpx2.post(
                    f"{front.behind}{self.path}", content=form, headers=kind, trust_env=False
                )
                self._send(answer.status_code, answer.content)
                front.answered += 1

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def running_front(behind: str, certificates: Path, port: int) -> Iterator[Front]:
    front = Front(behind, certificates, port)
    front.listen()
    try:
        yield front
    finally:
        front.stop()
