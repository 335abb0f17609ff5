"""A key is shown once, and cannot be made from what is stored."""

import hashlib

import pytest

from headgate.auth import keys
from headgate.auth.directory import Directory
from headgate.auth.keys import Key
from headgate.auth.outcome import EXPIRED, UNKNOWN, Identity

NOW = 1_800_000_000.0


def made(tenant="team-a", **more):
    return keys.create(tenant, "2026-01-01T00:00:00Z", **more)


def test_what_a_key_looks_like():
    """A prefix that scanners for secrets know, an id for lists and logs, and 160 random bits."""
    shown, key = made()
    prefix, id_, secret = shown.split("_")
    assert (prefix, id_) == ("hg", key.id)
    assert len(secret) * 5 == 160
    assert secret not in str(key)
    assert key.sha256 == hashlib.sha256(shown.encode()).hexdigest()
    assert len({made()[0] for _ in range(100)}) == 100


def test_who_holds_it():
    """By its hash; any other is unknown, and an expired one says so."""
    shown, key = made()
    late, expiring = made(expires="2027-01-15T08:00:00Z")
    directory = Directory([key, expiring])
    found = directory.of_key(keys.digest(shown.encode()), NOW)
    assert isinstance(found, Identity)
    assert (found.grant.name, found.by) == ("team-a", f"key {key.id}")
    assert directory.of_key(keys.digest(late.encode()), expiring.ends_at) is EXPIRED
    assert isinstance(directory.of_key(keys.digest(late.encode()), expiring.ends_at - 1), Identity)
    assert directory.of_key(keys.digest(b"hg_"), NOW) is UNKNOWN


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", ""),
        ("tenant", "Team A"),
        ("tenant", ""),
        ("sha256", "ab"),
        ("sha256", "Z" * 64),
        ("expires", "soon"),
    ],
)
def test_what_is_wrong_is_named(field, value):
    """By its field."""
    good = {"id": "a", "tenant": "team-a", "sha256": "0" * 64}
    assert keys.problems(Key(**good)) == []
    assert [name for name, _ in keys.problems(Key(**good | {field: value}))] == [field]
