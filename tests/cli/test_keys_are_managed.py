"""`headgate key` shows a key once, and stores hashes where the gateway reads them."""

import json
import os
import stat
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from click.testing import CliRunner

from headgate.auth import keys
from headgate.cli import main
from headgate.dataplane.credentials import key_file
from headgate.kubeschema import timestamps


@pytest.fixture
def key(tmp_path):
    """Runs a command on a file of keys."""
    path = tmp_path / "keys.json"

    def run(*arguments, code=0):
        done = CliRunner().invoke(main, ["key", *arguments, "--file", str(path)])
        assert done.exit_code == code, done.output
        return done.output

    run.path = path
    return run


def test_a_key_is_shown_once(key):
    """The file has its hash, its tenant and its times, and only its owner may read it."""
    shown = key("create", "team-a", "--expires", "90d").strip()
    assert stat.S_IMODE(os.stat(key.path).st_mode) == 0o600
    assert shown not in key.path.read_text()
    (stored,) = key_file.read(key.path)
    assert stored.sha256 == keys.digest(shown.encode()).hex()
    assert stored.tenant == "team-a"
    assert abs(stored.ends_at - time.time() - 90 * 86_400) < 10
    listed = key("list")
    assert stored.id in listed
    assert "team-a" in listed
    assert stored.sha256 not in listed
    assert "sha256" not in key("list", "-o", "json")


def test_rotation_overlaps(key):
    """Both keys are valid for a while, and then the old one expires."""
    key("create", "team-a", "--admin")
    (old,) = key_file.read(key.path)
    made = json.loads(key("rotate", old.id, "--overlap", "1h", "-o", "json"))
    first, second = key_file.read(key.path)
    assert (first.id, second.id) == (old.id, made["id"])
    assert abs(first.ends_at - time.time() - 3600) < 10
    assert (second.tenant, second.admin, second.expires) == ("team-a", True, "")


def test_rotation_prolongs_nothing(key):
    """A key that expires sooner still does."""
    key("create", "team-a", "--expires", "30m")
    (old,) = key_file.read(key.path)
    key("rotate", old.id)
    assert key_file.read(key.path)[0].expires == old.expires


def test_a_key_is_revoked(key):
    """By its id."""
    key("create", "team-a")
    key("create", "team-b")
    first, second = key_file.read(key.path)
    assert key("revoke", first.id) == f"key {first.id} of team-a is revoked\n"
    assert key_file.read(key.path) == [second]
    assert "there is no key" in key("revoke", first.id, code=1)


def test_expired_keys_are_told(key, monkeypatch):
    """In the list, until somebody revokes them."""
    key("create", "team-a", "--expires", "1h")
    (stored,) = key_file.read(key.path)
    later = stored.ends_at + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert f"{timestamps.seconds(stored.ends_at)} (expired)" in key("list")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["create", "Team A"], "lower-case"),
        (["create", "a", "--expires", "soon"], "a number and a unit"),
        (["rotate", "a"], "create TENANT"),
        (["list"], "create TENANT"),
    ],
)
def test_what_is_wrong_is_said(key, arguments, told):
    """With the fix."""
    done = CliRunner().invoke(main, ["key", *arguments, "--file", str(key.path)])
    assert done.exit_code != 0
    assert told in done.output


def test_a_file_that_is_open_to_others(key):
    """Is neither read nor changed."""
    key("create", "team-a")
    key.path.chmod(0o640)
    assert f"chmod 600 {key.path}" in key("list", code=1)
    assert "chmod 600" in key("create", "team-b", code=1)


def test_commands_at_the_same_time_lose_no_key(tmp_path):
    """The second waits for the first."""
    path = tmp_path / "keys.json"

    def add(number):
        made = keys.create(f"team-{number}", "2026-01-01T00:00:00Z")[1]
        key_file.change(path, lambda present: [*present, made])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(40)))
    assert len(key_file.read(path)) == 40
