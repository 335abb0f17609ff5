"""Names, sizes and responses come from a server: what could do harm is refused before anything is written."""

import json
import string

import hypothesis
import pytest
from hypothesis import strategies as st

from headgate import downloads
from headgate.downloads import s3_pages
from headgate.downloads.listing import Patterns, RemoteFile, checked
from headgate.downloads.retries import Backoff

QUICK = downloads.Options(backoff=Backoff(first_s=0.001, longest_s=0.01))


def fetched(hub, target):
    return downloads.fetch("hf://org/name", target, {"HF_ENDPOINT": hub.url}, options=QUICK)


def respond_to_listing(hub, body, headers=None):
    def answer(handler):
        if not handler.path.startswith("/api/"):
            return False
        handler.respond(body, headers or {})
        return True

    hub.answer = answer


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        "/etc/passwd",
        "a/../../outside",
        "a//b",
        "./a",
        "",
        "a\x00b",
        "a\nb",
        "\x1b[2Jcleared",
        "a\\..\\b",
        "\ud800",
        "x" * 300,
        "a/" * 40 + "b",
        ".headgate/manifest.json",
    ],
)
def test_names_that_lead_elsewhere_are_refused(hub, repository, tmp_path, path):
    """Nothing is written, neither inside nor outside of the target; the message is safe to print."""
    siblings = [{"rfilename": path, "size": 1, "blobId": "0" * 40}]
    respond_to_listing(hub, json.dumps({"id": "org/name", "sha": "c" * 40, "siblings": siblings}).encode())

    with pytest.raises(downloads.DownloadError, match=r"is refused: its file .* nothing was written") as told:
        fetched(hub, tmp_path / "sub" / "model")

    assert told.value.reason is downloads.Reason.REFUSED
    assert str(told.value).isprintable()
    assert [path.name for path in (tmp_path / "sub").iterdir()] == [".headgate"]
    assert not [each for each in tmp_path.rglob("*") if each.is_file() and each.name != "lock"]


@pytest.mark.parametrize(
    "siblings",
    [
        [{"rfilename": "a", "size": -1}],
        [{"rfilename": "a", "size": 1 << 60}],
        [{"rfilename": "a", "size": 1.5}],
        [{"rfilename": "a", "size": None}],
        [{"rfilename": "a"}],
        [{"rfilename": 7, "size": 1}],
        [{"rfilename": "a", "size": 1}, {"rfilename": "a", "size": 2}],
        [{"rfilename": "a", "size": 1}, {"rfilename": "a/b", "size": 2}],
        [{"rfilename": "a", "size": 1, "lfs": {"sha256": "../../x", "size": 1, "pointerSize": 1}}],
        [{"rfilename": f"{number}", "size": 1} for number in range(100_001)],
        {"rfilename": "a"},
        "a",
        [["a"]],
        7,
    ],
    ids=lambda siblings: str(siblings)[:50],
)
def test_absurd_listings_are_refused(hub, repository, tmp_path, siblings):
    """Sizes, counts, and types."""
    respond_to_listing(hub, json.dumps({"id": "org/name", "sha": "c" * 40, "siblings": siblings}).encode())

    with pytest.raises(downloads.DownloadError) as told:
        fetched(hub, tmp_path / "model")

    assert told.value.reason is downloads.Reason.REFUSED, told.value


@pytest.mark.parametrize(
    "body", [b"<html>", b"", b"[]", b"{" * 100_000, b"\xff\xfe", b'"text"', b"[" * 100_000]
)
def test_responses_that_are_no_listing_are_named(hub, repository, tmp_path, body):
    """The endpoint is no hub: the message names the variable that sets it."""
    respond_to_listing(hub, body)

    with pytest.raises(downloads.DownloadError, match="does not respond as a hub does; check HF_ENDPOINT"):
        fetched(hub, tmp_path / "model")


def test_a_listing_without_end_is_refused(hub, repository, tmp_path):
    """32 MiB are read at most."""
    respond_to_listing(hub, b" " * (40 << 20))

    with pytest.raises(downloads.DownloadError, match="a response of more than 32 MiB") as told:
        fetched(hub, tmp_path / "model")

    assert told.value.reason is downloads.Reason.REFUSED


def test_compressed_responses_are_refused(hub, repository, tmp_path):
    """None was asked for, and a small one could fill the memory."""
    respond_to_listing(hub, b"\x1f\x8b", {"Content-Encoding": "gzip"})

    with pytest.raises(downloads.DownloadError, match="a compressed response"):
        fetched(hub, tmp_path / "model")


def test_a_file_without_end_is_read_to_its_size(hub, repository, tmp_path):
    """What the server sends beyond the range is not read; the hash still has to match."""

    def answer(handler):
        if not handler.path.endswith("/config.json"):
            return False
        content = repository.files["config.json"]
        size = len(content)
        headers = {"Content-Range": f"bytes 0-{size - 1}/{size}", "Content-Length": str(1 << 40)}
        handler.respond(content + b"x" * (8 << 20), headers, 206)
        handler.close_connection = True
        return True

    hub.answer = answer
    fetched(hub, tmp_path / "model")

    assert (tmp_path / "model/config.json").read_bytes() == repository.files["config.json"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Range": "bytes 5-25/21"},
        {"Content-Range": "bytes 0-99999999999/21"},
        {"Content-Range": "bytes 0-20/99"},
        {"Content-Range": "bytes " + "9" * 5000},
        {"Content-Range": "bytes 0-20/21", "Content-Encoding": "gzip"},
    ],
)
def test_other_ranges_than_those_requested_are_refused(hub, repository, tmp_path, headers):
    """Each becomes an error, after some attempts."""

    def answer(handler):
        if not handler.path.endswith("/config.json"):
            return False
        handler.respond(repository.files["config.json"], headers, 206)
        return True

    hub.answer = answer
    with pytest.raises(downloads.DownloadError):
        fetched(hub, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_redirects_in_circles_are_refused(hub, repository, tmp_path):
    """Five redirects are followed at most."""

    def answer(handler):
        if "/resolve/" not in handler.path:
            return False
        handler.respond(b"", {"Location": handler.path}, 302)
        return True

    hub.answer = answer
    with pytest.raises(downloads.DownloadError, match="redirects in circles"):
        fetched(hub, tmp_path / "model")


names = st.text(st.sampled_from("ab./\\\0\n" + string.whitespace), max_size=12) | st.text(max_size=5)


@hypothesis.given(st.lists(st.tuples(names, st.integers(-5, 1 << 50)), max_size=8))
def test_whatever_is_listed_stays_inside(tmp_path_factory, files):
    """Every accepted name is below the target, and no accepted name is in the way of another."""
    root = tmp_path_factory.getbasetemp() / "root"
    try:
        accepted = checked("s3://x", [RemoteFile(path, size) for path, size in files], Patterns())
    except downloads.DownloadError as error:
        assert str(error).isprintable()
        return
    paths = [root / file.path for file in accepted]
    assert all(path.resolve().is_relative_to(root) and path.resolve() != root for path in paths)
    assert len(set(paths)) == len(files)
    assert not any(one in other.parents for one in paths for other in paths)


@hypothesis.given(st.binary(max_size=200))
def test_any_bytes_are_no_page_of_s3(body):
    """Whatever a server sends becomes a page or an error."""
    s3_pages.failure(body)
    try:
        s3_pages.page(body)
    except ValueError:
        return


@pytest.mark.parametrize(
    "body",
    [
        b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">]><ListBucketResult><Name>&a;</Name></ListBucketResult>',
        b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><ListBucketResult/>',
        b"<a>" * 1000,
        b"<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        b"<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        b"<ListBucketResult><Name>" + b"a" * 20_000 + b"</Name></ListBucketResult>",
        b"<Error/>",
    ],
)
def test_hostile_xml_is_refused(body):
    """Entities, depth, long texts, and objects that are incomplete."""
    with pytest.raises(ValueError):  # noqa: PT011 - any of them
        s3_pages.page(body)
