"""Tokens of an issuer open the gateway, and its keys may be rotated."""

import asyncio
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

KEYS = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("one", "two")}
ISSUER = "https://issuer.example"


def key_set(*names):
    made = [
        jwt.algorithms.ECAlgorithm.to_jwk(KEYS[name].public_key(), as_dict=True) | {"kid": name}
        for name in names
    ]
    return json.dumps({"keys": made}).encode()


def token(by="one", **claims):
    claims = {"iss": ISSUER, "aud": "headgate", "sub": "team-a", "exp": time.time() + 600} | claims
    return jwt.encode(claims, KEYS[by], algorithm="ES256", headers={"kid": by})


def of(text):
    return {"authorization": f"Bearer {text}"}


@pytest.fixture
def start(start_gateway, start_endpoint, tmp_path):
    """A gateway with the keys in a file, and what follows them running."""

    async def start(**settings):
        path = tmp_path / "jwks.json"
        path.write_bytes(key_set("one"))
        endpoint = await start_endpoint(b"{}")
        chosen = {"auth_jwt_keys": str(path), "auth_jwt_issuer": ISSUER, "auth_jwt_audiences": ("headgate",)}
        gateway = await start_gateway(endpoint, settings=chosen | settings)
        gateway.endpoint, gateway.keys = endpoint, path
        gateway.following = asyncio.create_task(gateway.shell.services.credentials.run())
        started.append(gateway.following)
        return gateway

    started = []
    yield start
    for task in started:
        task.cancel()


async def known(gateway, eventually, count=1):
    credentials = gateway.shell.services.credentials
    await eventually(lambda: credentials.statistics()["key_set"]["keys"] == count)


async def test_a_token_opens(start, eventually):
    """And its subject is the tenant; the endpoint does not get it."""
    gateway = await start(logging_access_log="json")
    await known(gateway, eventually)
    assert (await gateway.ask(**of(token()))).status == 200
    assert gateway.endpoint.calls[0].header("authorization") is None
    refused = await gateway.ask(**of(token(aud="other")))
    assert (refused.status, refused.json["error"]["code"]) == (401, "invalid_token")
    assert (await gateway.ask()).status == 401
    assert json.loads(gateway.log_lines()[0])["tenant"] == "team-a"


async def test_keys_are_rotated(start, eventually):
    """A token of a new key makes the gateway read the keys at once; until then the client is to retry."""
    gateway = await start()
    await known(gateway, eventually)
    gateway.keys.write_bytes(key_set("one", "two"))
    key_set_ = gateway.shell.services.credentials._key_set
    key_set_._began_at = -100.0  # the last time is long ago
    waiting = await gateway.ask(**of(token("two")))
    assert (waiting.status, waiting.header("retry-after")) == (503, "1")
    await known(gateway, eventually, 2)
    assert (await gateway.ask(**of(token("two")))).status == 200
    gateway.keys.write_bytes(key_set("two"))
    key_set_.want()
    key_set_._wanted.set()
    await known(gateway, eventually, 1)
    assert (await gateway.ask(**of(token("one")))).status == 401


async def test_inventing_keys_makes_it_read_them_seldom(start, eventually):
    """Otherwise anybody could have the issuer asked without end."""
    gateway = await start()
    await known(gateway, eventually)
    statuses = [(await gateway.ask(**of(token("two", jti=str(n))))).status for n in range(5)]
    assert statuses == [401] * 5


async def test_before_the_keys_are_there_clients_retry(start, eventually):
    """The gateway cannot tell good tokens from bad ones yet."""
    gateway = await start(auth_jwt_keys="/nowhere/jwks.json")
    assert (await gateway.ask(**of(token()))).status == 503
    await eventually(
        lambda: "No such file" in gateway.shell.services.credentials.statistics()["key_set"]["trouble"]
    )


async def test_keys_come_from_a_url(start, eventually, start_endpoint):
    """And a source that fails later takes nothing away."""
    issuer = await start_endpoint(key_set("one"))
    gateway = await start(auth_jwt_keys=f"http://127.0.0.1:{issuer.port}/jwks")
    await known(gateway, eventually)
    assert (await gateway.ask(**of(token()))).status == 200
    issuer.behave = lambda call: call.answer(b"no", status="500 Error")
    gateway.shell.services.credentials._key_set._wanted.set()
    await eventually(lambda: gateway.shell.services.credentials.statistics()["key_set"]["trouble"])
    assert (await gateway.ask(**of(token(jti="2")))).status == 200


@pytest.mark.parametrize(
    "published",
    [
        b'{"keys": [{"kty": "RSA", "alg": "none", "n": "AQAB", "e": "AQAB"}]}',
        b'{"keys": [{"a":' + b"[" * 5000 + b"]" * 5000 + b"}]}",
        b"\xff",
    ],
    ids=["a key without a signature", "nested deeply", "no text"],
)
async def test_whatever_an_issuer_publishes_the_last_keys_stay(start, eventually, published):
    """Third parties must not be able to end the gateway."""
    gateway = await start()
    await known(gateway, eventually)
    gateway.keys.write_bytes(published)
    credentials = gateway.shell.services.credentials
    credentials._key_set._wanted.set()
    await eventually(lambda: credentials.statistics()["key_set"]["trouble"] or gateway.following.done())
    assert not gateway.following.done()
    assert (await gateway.ask(**of(token()))).status == 200


async def test_keys_and_tokens_at_once(start, eventually, keys_file):
    """Either is enough."""
    key = keys_file.make()
    gateway = await start(auth_keys_file=str(keys_file.path))
    await known(gateway, eventually)
    assert (await gateway.ask(x_api_key=key)).status == 200
    assert (await gateway.ask(**of(token()))).status == 200
