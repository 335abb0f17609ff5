"""`headgate cache` shows what a cache has, finds what was damaged, and removes what is not needed."""

import json
import os
import time
from pathlib import Path

import hypothesis
import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from headgate import downloads
from headgate.cli import main
from headgate.downloads import cache, lease
from headgate.downloads.halting import Halt
from headgate.downloads.manifest import Manifest, StoredFile
from headgate.downloads.retries import Backoff


def headgate(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def folder(hub, repository, tmp_path):
    """A cache with two complete downloads, and one that was interrupted."""
    hub.repositories["org/adapter"] = type(repository)({"adapter.bin": b"a" * 5000}, commit="a" * 40)
    hub.repositories["org/broken"] = type(repository)({"weights": b"w" * 20_000_000})
    environment = {"HF_ENDPOINT": hub.url}
    for name in ("name", "adapter"):
        downloads.fetch(f"hf://org/{name}", tmp_path / "cache" / name, environment)
    hub.cut = lambda path, length: 100
    options = downloads.Options(backoff=Backoff(attempts=2, first_s=0.01))
    with pytest.raises(downloads.DownloadError):
        downloads.fetch("hf://org/broken", tmp_path / "cache" / "broken", environment, options=options)
    return tmp_path / "cache"


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".headgate")


def test_downloads_are_listed(folder):
    """With their source, commit, size, and whether they are complete."""
    listed = headgate("cache", "list", "--cache-dir", folder).output.splitlines()

    assert listed[0].split() == ["NAME", "SOURCE", "REVISION", "FILES", "SIZE", "USED", "STATE"]
    assert [line.split()[0] for line in listed[1:]] == ["adapter", "broken", "name"]
    assert "hf://org/adapter  aaaaaaaaaaaa  1      5.0 kB" in listed[1]
    assert listed[1].endswith("complete")
    assert listed[2].endswith("partial")
    found = json.loads(headgate("cache", "list", "--cache-dir", folder, "--output", "json").output)
    assert [entry["complete"] for entry in found] == [True, False, True]
    assert found[0]["source"] == "hf://org/adapter"


def test_damage_is_found(folder):
    """Files that are missing, changed, or do not belong there."""
    assert headgate("cache", "verify", "--cache-dir", folder).exit_code == 0
    (folder / "name" / "config.json").write_bytes(b'{"architectures": {}}'[:20])
    (folder / "name" / "tokenizer" / "tokenizer.json").write_bytes(b"[]" * 5000)
    (folder / "name" / "empty.txt").unlink()
    (folder / "name" / "extra").touch()

    done = headgate("cache", "verify", "--cache-dir", folder)

    assert done.exit_code == 1
    assert "adapter: 1 files are intact" in done.output
    assert "broken: not complete" in done.output
    assert "name: empty.txt: missing" in done.output
    assert "name: tokenizer/tokenizer.json: has the SHA-256 hash" in done.output
    assert "name: extra: not part of the download" in done.output
    assert headgate("cache", "verify", "--cache-dir", folder, "adapter").exit_code == 0
    told = json.loads(headgate("cache", "verify", "--cache-dir", folder, "-o", "json").output)
    assert [len(entry["problems"]) for entry in told] == [0, 0, 4]
    assert "no download 'other'" in headgate("cache", "verify", "--cache-dir", folder, "other").output


def test_what_was_not_used_is_removed(folder):
    """A download that is found complete counts as used; a partial one stays for an hour."""
    old = time.time() - 10 * 86400
    os.utime(folder / "adapter" / ".headgate" / "manifest.json", (old, old))

    dry = headgate("cache", "prune", "--cache-dir", folder, "--unused-days", 7, "--dry-run")
    assert dry.output == "adapter (hf://org/adapter, 5.0 kB): would be removed\n"
    done = headgate("cache", "prune", "--cache-dir", folder, "--unused-days", 7)

    assert done.output == "adapter (hf://org/adapter, 5.0 kB): removed\n"
    assert names(folder) == ["name"]
    assert (
        headgate("cache", "prune", "--cache-dir", folder, "--unused-days", 7).output == "Nothing to remove\n"
    )


def test_partial_downloads_are_removed_after_an_hour(folder):
    """Their space is free again."""
    work = folder / ".headgate" / "broken"
    old = time.time() - 7200
    for path in work.rglob("*"):
        os.utime(path, (old, old))

    done = headgate("cache", "prune", "--cache-dir", folder, "--unused-days", 0.05)

    assert done.output.startswith("broken (not complete, ")
    assert [path.name for path in work.iterdir()] == ["lock"]


def test_what_failed_before_the_first_byte_is_listed_and_removed(tmp_path, hub):
    """No repository has this name; nobody holds what is left of the attempt."""
    with pytest.raises(downloads.DownloadError):
        downloads.fetch("hf://org/none", tmp_path / "none", {"HF_ENDPOINT": hub.url})

    listed = headgate("cache", "list", "--cache-dir", tmp_path).output.splitlines()
    assert [(line.split()[0], line.split()[-1]) for line in listed[1:]] == [("none", "partial")]
    done = headgate("cache", "prune", "--cache-dir", tmp_path, "--unused-days", 0)

    assert done.output == "none (not complete, 0 B): removed\n"
    assert headgate("cache", "list", "--cache-dir", tmp_path).output.count("\n") == 1


def test_a_fresh_partial_download_stays_if_it_has_a_holder(folder):
    """Which may still download it; without one, --unused-days 0 removes it at once."""
    lease = folder / ".headgate" / "broken" / "lease.json"
    lease.write_text('{"token": "x", "host": "pod-7", "pid": 12, "kernel": "k"}')

    held = headgate("cache", "prune", "--cache-dir", folder, "--unused-days", 0, "--dry-run")
    lease.unlink()
    free = headgate("cache", "prune", "--cache-dir", folder, "--unused-days", 0, "--dry-run")

    assert "broken" not in held.output
    assert "broken (not complete, " in free.output


def test_the_rest_fits_the_size(folder):
    """The least recently used go first; those named stay."""
    old = time.time() - 86400
    os.utime(folder / "name" / ".headgate" / "manifest.json", (old, old))

    kept = headgate("cache", "prune", "--cache-dir", folder, "--max-size", "30M", "--keep", "hf://org/name")
    assert "adapter (hf://org/adapter, 5.0 kB): removed" in kept.output
    assert names(folder) == ["name"]
    assert (
        "name (hf://org/name, 34.1 MB): removed"
        in headgate("cache", "prune", "--cache-dir", folder, "--max-size", "30M").output
    )
    assert names(folder) == []


def test_the_state_of_a_machine_is_no_download(tmp_path, hub, repository):
    """`headgate up` keeps its keys in a directory that is called like that of partial downloads."""
    keys = tmp_path / ".headgate" / "pki"
    keys.mkdir(parents=True)
    (keys / "ca.key").write_text("key")
    os.utime(keys / "ca.key", (0, 0))

    assert headgate("cache", "list", "--cache-dir", tmp_path).output.count("\n") == 1
    done = headgate("cache", "prune", "--cache-dir", tmp_path, "--unused-days", 0)
    assert done.output == "Nothing to remove\n"
    downloads.fetch("hf://org/name", tmp_path / "pki", {"HF_ENDPOINT": hub.url})
    headgate("cache", "prune", "--cache-dir", tmp_path, "--unused-days", 0)

    assert (keys / "ca.key").read_text() == "key"
    assert not (tmp_path / "pki").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((), "say what to remove: --unused-days or --max-size"), (("--max-size", "much"), "--max-size")],
)
def test_what_to_prune_has_to_be_said(tmp_path, arguments, message):
    """Nothing is removed by default."""
    done = headgate("cache", "prune", "--cache-dir", tmp_path, *arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_what_is_downloaded_now_stays(folder, monkeypatch):
    """Its lease is held."""
    monkeypatch.setattr(cache, "_PATIENCE_S", 0.1)
    entry = cache.entries(folder)[0]
    with lease.held(folder / ".headgate" / "adapter", Halt(), lambda _: None):
        assert not cache.remove(entry)
    assert names(folder) == ["adapter", "name"]
    assert cache.remove(entry)
    assert names(folder) == ["name"]


entries = st.builds(
    lambda number, size, used: cache.Entry(
        downloads.cache_directory(Path("/"), str(number)),
        Manifest(f"hf://org/{number}", [StoredFile("a", size, "")]),
        size,
        used,
        None,
    ),
    st.integers(0, 1000),
    st.integers(0, 100),
    st.floats(0, 1000),
)


@hypothesis.given(
    st.lists(entries, max_size=8, unique_by=lambda entry: entry.directory),
    st.none() | st.floats(0, 1000),
    st.none() | st.integers(0, 500),
)
def test_prune_keeps_as_much_as_it_may(found, older_than_s, max_bytes):
    """Everything old goes; beyond that, nothing that would have fitted."""
    gone = cache.to_prune(found, 1000.0, older_than_s=older_than_s, max_bytes=max_bytes, keep=["hf://org/1"])
    left = [entry for entry in found if entry not in gone]
    assert all(entry.manifest.source != "hf://org/1" for entry in gone)
    if older_than_s is not None:
        old = [entry for entry in found if 1000.0 - entry.used > older_than_s]
        assert {entry.directory for entry in old if entry.manifest.source != "hf://org/1"} <= {
            entry.directory for entry in gone
        }
    if max_bytes is not None and gone and (older_than_s is None or 1000.0 - gone[-1].used <= older_than_s):
        assert sum(entry.size for entry in left) + gone[-1].size > max_bytes
    if max_bytes is not None and sum(entry.size for entry in left) > max_bytes:
        assert all(entry.manifest.source == "hf://org/1" for entry in left)
