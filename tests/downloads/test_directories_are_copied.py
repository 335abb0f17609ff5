"""Directories and mounted claims are sources too: their files are copied, and never more than is inside."""

import os

import pytest

from headgate import downloads


def fetched(source, target, **options):
    return downloads.fetch(str(source), target, {}, options=downloads.Options(**options))


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "weights.bin").write_bytes(b"w" * 20_000_000)
    return folder


def test_a_directory_is_copied_with_hashes(source, tmp_path):
    """The copy has the same files, and a manifest."""
    found = fetched(source, tmp_path / "copy")

    assert [file.path for file in found.files] == ["config.json", "sub/weights.bin"]
    assert (tmp_path / "copy/sub/weights.bin").read_bytes() == b"w" * 20_000_000


def test_patterns_select_files(source, tmp_path):
    """Excluded files and those that are not included stay where they are."""
    fetched(source, tmp_path / "one", patterns=downloads.Patterns(include=["*.json"]))
    fetched(source, tmp_path / "two", patterns=downloads.Patterns(exclude=["sub/"]))

    for name in ("one", "two"):
        assert [path.name for path in (tmp_path / name).iterdir() if path.name != ".headgate"] == [
            "config.json"
        ]


def test_links_inside_the_cache_of_a_hub_are_followed(tmp_path):
    """A snapshot consists of links to the blobs beside it."""
    model = tmp_path / "models--org--name"
    (model / "blobs").mkdir(parents=True)
    (model / "blobs" / "abc").write_text("weights")
    (model / "snapshots" / "main").mkdir(parents=True)
    (model / "snapshots" / "main" / "model.bin").symlink_to("../../blobs/abc")

    fetched(model / "snapshots" / "main", tmp_path / "copy")

    assert (tmp_path / "copy/model.bin").read_text() == "weights"
    assert not (tmp_path / "copy/model.bin").is_symlink()


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret", "/proc/self/environ", "/etc", "missing"])
def test_links_that_lead_outside_are_refused(source, tmp_path, target):
    """A claim that somebody else wrote does not reveal files of this machine."""
    (tmp_path / "secret").write_text("secret")
    (source / "link").symlink_to(target)

    with pytest.raises(downloads.DownloadError, match="'link'") as told:
        fetched(source, tmp_path / "copy")

    assert told.value.reason is downloads.Reason.REFUSED
    assert not (tmp_path / "copy").exists()


def test_devices_are_refused(source, tmp_path):
    """A pipe would block the download for ever."""
    os.mkfifo(source / "pipe")

    with pytest.raises(downloads.DownloadError, match="'pipe' is not a regular file"):
        fetched(source, tmp_path / "copy")


def test_a_claim_that_is_not_mounted_is_named(tmp_path):
    """pvc://claim/path is at /claim/path."""
    with pytest.raises(
        downloads.DownloadError, match="no directory /no-such-claim/org; mount the claim there"
    ):
        fetched("pvc://no-such-claim/org", tmp_path / "copy")


@pytest.mark.parametrize("inside", ["source/copy", "."])
def test_a_directory_is_not_copied_into_itself(source, tmp_path, inside):
    """It would grow for ever."""
    with pytest.raises(downloads.DownloadError, match="one is inside the other"):
        fetched(source, tmp_path / inside)
