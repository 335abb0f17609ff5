"""A gateway is ready once it has the keys of its issuer, so that valid tokens are accepted from then on."""

import http.server
import json
import threading
import time
from collections.abc import Iterator

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

KEY = ec.generate_private_key(ec.SECP256R1())
SLOW_S = 0.7


class Issuer(http.server.BaseHTTPRequestHandler):
    """Takes its time, as one across the internet may."""

    def do_GET(self) -> None:
        time.sleep(SLOW_S)
        public = jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True) | {"kid": "one"}
        body = json.dumps({"keys": [public]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/jwks"
    server.shutdown()
    thread.join()
    server.server_close()


def status(gateway) -> int:
    token = jwt.encode(
        {"sub": "team-a", "exp": time.time() + 600}, KEY, algorithm="ES256", headers={"kid": "one"}
    )
    response = httpx2.get(f"{gateway.url}/v1/models", headers={"authorization": f"Bearer {token}"})
    return response.status_code


async def test_a_slow_issuer_is_waited_for(start_gateway, issuer):
    """The first request after the start has a token that is accepted."""
    gateway = await start_gateway("--auth-jwt-keys", issuer)
    assert status(gateway) == 200


async def test_an_issuer_that_is_down_is_not(start_gateway):
    """Other credentials may still be valid."""
    gateway = await start_gateway("--auth-jwt-keys", "http://127.0.0.1:1/jwks")
    assert status(gateway) == 503
