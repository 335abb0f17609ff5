"""A token counts if a key of its issuer signed it, for this audience, and now."""

import contextlib
import json
import time

import jwt
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from headgate.api import Tenant
from headgate.auth import tokens
from headgate.auth.directory import Directory
from headgate.auth.outcome import Denial, Identity
from headgate.auth.token_cache import DENIED_S, MAX_DENIED, MAX_VALID, TokenCache

NOW = 1_800_000_000.0
PRIVATE = {
    "rsa": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "ed": ed25519.Ed25519PrivateKey.generate(),
}
ALGORITHMS = {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA"}
MAKERS = {
    "rsa": jwt.algorithms.RSAAlgorithm,
    "ec": jwt.algorithms.ECAlgorithm,
    "ed": jwt.algorithms.OKPAlgorithm,
}
ISSUER = tokens.Issuer(name="https://issuer.example", audiences=("headgate",))


def key_set(*names, **more):
    found = []
    for name in names:
        key = MAKERS[name].to_jwk(PRIVATE[name].public_key(), as_dict=True)
        found.append(key | {"kid": name, "use": "sig"} | more)
    return tokens.read_keys(json.dumps({"keys": found}).encode())


def token(by="rsa", algorithm=None, headers=None, **claims):
    claims = {"iss": ISSUER.name, "aud": "headgate", "sub": "team-a", "exp": NOW + 600} | claims
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(
        claims,
        PRIVATE[by],
        algorithm=algorithm or ALGORITHMS[by],
        headers={"kid": by} if headers is None else headers,
    )


def verified(text, keys=None, issuer=ISSUER, now=NOW):
    return tokens.verify(text, keys or key_set(*PRIVATE), issuer, now)


@pytest.mark.parametrize("by", PRIVATE)
def test_each_kind_of_key(by):
    """RSA, elliptic curves, and Ed25519."""
    assert verified(token(by)) == tokens.Valid("team-a", NOW + 600 + tokens.LEEWAY_S)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"exp": None}, "no `exp`"),
        ({"exp": NOW - 61}, "expired"),
        ({"exp": "never"}, "no `exp`"),
        ({"nbf": NOW + 61}, "not valid yet"),
        ({"exp": float("nan")}, "no `exp`"),
        ({"exp": float("inf")}, "no `exp`"),
        ({"exp": 10**400}, "no `exp`"),
        ({"nbf": "later"}, "`nbf` is not a time"),
        ({"iat": [NOW]}, "`iat` is not a time"),
        ({"sub": "a" * 257}, "more than 256 characters"),
        ({"sub": "team-a\n"}, "cannot be printed"),
        ({"sub": "a\x1b[31m"}, "cannot be printed"),
        ({"sub": "a\u202eb"}, "cannot be printed"),
        ({"sub": "\x00"}, "cannot be printed"),
        ({"iat": NOW + 61}, "in the future"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": "other"}, "audience"),
        ({"aud": None}, "audience"),
        ({"aud": ["a", "b"]}, "audience"),
        ({"sub": None}, "claim 'sub'"),
    ],
)
def test_claims(claims, why):
    """Kthena's rules: exp is required, and clocks may differ by a minute."""
    found = verified(token(**claims))
    assert isinstance(found, Denial)
    assert why in found.message
    assert found.status == 401


def test_what_is_not_configured_is_not_checked():
    """Any audience and any issuer; one of several audiences is enough."""
    assert isinstance(verified(token(aud="x", iss="y"), issuer=tokens.Issuer(name="")), tokens.Valid)
    assert isinstance(verified(token(aud=["x", "headgate"])), tokens.Valid)


def test_another_claim_names_the_tenant():
    """Such as a group."""
    issuer = tokens.Issuer(name="", claim="team")
    assert verified(token(team="b"), issuer=issuer).subject == "b"


def test_the_token_does_not_choose_how_it_is_verified():
    """Unsigned ones, and those signed with the public key as a shared secret, are the classic forgeries."""
    payload = {"iss": ISSUER.name, "aud": "headgate", "sub": "team-a", "exp": NOW + 600}
    unsigned = jwt.encode(payload, None, algorithm="none", headers={"kid": "rsa"})
    assert isinstance(verified(unsigned), Denial)
    for name in PRIVATE:
        forged = jwt.encode(payload, "x" * 64, algorithm="HS256", headers={"kid": name})
        assert isinstance(verified(forged), Denial)
    head, body, signature = token().split(".")
    assert isinstance(verified(f"{head}.{body}.{signature[:-8]}AAAAAAAA"), Denial)
    assert isinstance(verified(f"{head}.{token(sub='team-b').split('.')[1]}.{signature}"), Denial)
    assert isinstance(verified(token("rsa", headers={"kid": "ec"})), Denial)


def test_a_key_without_an_id():
    """With a single key, a token needs to name none."""
    assert isinstance(verified(token(headers={}), key_set("rsa")), tokens.Valid)
    with pytest.raises(tokens.UnknownKey):
        verified(token(headers={}))
    with pytest.raises(tokens.UnknownKey):
        verified(token("ec"), key_set("rsa"))


@pytest.mark.parametrize("text", ["", "ey", "ey.ey.ey", "eyJhbGciOiJSUzI1NiJ9..", "ey\xff.a.b"])
def test_what_is_no_token(text):
    """Never an exception."""
    with contextlib.suppress(tokens.UnknownKey):
        assert isinstance(verified(text), Denial)


@pytest.mark.parametrize(
    "bad",
    [
        {"alg": "none"},
        {"alg": ["RS256"], "kty": ["RSA"]},
        {"n": 5},
        {"e": "AA"},
        {"d": "AQAB"},
        {"kty": "EC", "crv": [], "x": 1},
        {"kty": "OKP", "crv": "X25519", "x": "AA"},
    ],
    ids=str,
)
def test_a_key_that_cannot_be_read_takes_away_no_others(bad):
    """Whatever an issuer publishes beside the keys that are in use, private keys included."""
    good = MAKERS["rsa"].to_jwk(PRIVATE["rsa"].public_key(), as_dict=True)
    document = {"keys": [good | {"kid": "bad"} | bad, good | {"kid": "rsa"}]}
    assert [*tokens.read_keys(json.dumps(document).encode())] == ["rsa"]


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{}",
        b'{"keys": []}',
        b'{"keys": [{"kty": "oct", "k": "AAAA"}]}',
        b"[]",
        b'{"keys": [{"kty": "\xff"}]}',
        pytest.param(b'{"keys": [{"a":' + b"[" * 5000 + b"]" * 5000 + b"}]}", id="nested deeply"),
    ],
)
def test_what_is_no_key_set(document):
    """Shared secrets among the keys are passed over: whoever verifies with them could sign."""
    with pytest.raises(ValueError, match=r"(?i)key set|public key"):
        tokens.read_keys(document)


class Cached:
    """A cache with counted verifications."""

    def __init__(self, tenants=None, names=("rsa",)):
        self.keys = key_set(*names)
        self.wanted = 0
        self.comes = True
        self.cache = TokenCache(ISSUER, Directory((), tenants), lambda: self.keys, self._want)

    def _want(self):
        self.wanted += 1
        return self.comes

    def ask(self, text, now=NOW):
        raw = text.encode()
        return self.cache.identity(raw, tokens.fingerprint(raw), now)


@pytest.fixture
def verifications(monkeypatch):
    count = []
    verify = tokens.verify
    monkeypatch.setattr(tokens, "verify", lambda *given: count.append(1) or verify(*given))
    return count


def test_a_token_is_verified_once(verifications):
    """Until it expires."""
    cached, text = Cached(), token()
    found = [cached.ask(text) for _ in range(5)]
    assert all(isinstance(each, Identity) and each.grant.name == "team-a" for each in found)
    assert len(verifications) == 1
    assert isinstance(cached.ask(text, NOW + 600 + tokens.LEEWAY_S), Denial)
    assert len(verifications) == 2


def test_a_bad_token_is_verified_once_in_a_while(verifications):
    """So that one bad client costs little."""
    cached, text = Cached(), token(aud="other")
    assert all(isinstance(cached.ask(text), Denial) for _ in range(5))
    assert len(verifications) == 1
    cached.ask(text, NOW + DENIED_S)
    assert len(verifications) == 2


def test_both_sides_are_bounded(monkeypatch):
    """Whatever is sent."""
    cached = Cached()

    def by_first_digit(text, *_):
        return tokens.Valid(text, NOW + 9) if text[3] == "1" else Denial(code="c", message="m")

    monkeypatch.setattr(tokens, "verify", by_first_digit)
    for number in range(MAX_VALID + 10):
        cached.ask(f"ey.1{number}.")
    for number in range(MAX_DENIED + 10):
        cached.ask(f"ey.2{number}.")
    assert cached.cache.statistics() == {"valid": MAX_VALID, "denied": MAX_DENIED}


def test_an_unknown_key_is_asked_for():
    """The client is to try again while the new keys may be on their way, and not if they are not."""
    cached, text = Cached(), token("ec")
    assert cached.ask(text).status == 503
    assert cached.wanted == 1
    cached.keys = key_set("rsa", "ec")
    assert isinstance(cached.ask(text), Identity)
    cached.keys, cached.comes = key_set("rsa"), False
    assert cached.ask(token("ed")).status == 401


def test_api_keys_are_no_tokens():
    """And cost no verification."""
    assert Cached().ask("hg_abc_def") is None


def test_subjects_of_tenants():
    """By name, or by a pattern of a Tenant."""
    tenants = {"team-a": _tenant(subjects=["*@a.example"])}
    cached = Cached(tenants)
    assert cached.ask(token(sub="me@a.example")).grant.name == "team-a"
    assert cached.ask(token(sub="team-a")).grant.name == "team-a"
    assert cached.ask(token(sub="me@b.example")).code == "unknown_tenant"


def _tenant(**spec):
    return msgspec.convert({"metadata": {"name": "t"}, "spec": spec}, Tenant)


def test_how_long_a_verification_takes():
    """Some hundred microseconds at most, so that inventing tokens costs the gateway no more than requests."""
    keys, text = key_set("rsa"), token()
    began = time.process_time()
    for _ in range(50):
        tokens.verify(text, keys, ISSUER, NOW)
    assert (time.process_time() - began) / 50 < 0.002
