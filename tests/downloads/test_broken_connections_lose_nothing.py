"""Connections that break are continued where they stopped, and what arrived wrong is fetched again."""

import random

import pytest

from headgate import downloads
from headgate.downloads.retries import Backoff

QUICK = downloads.Options(backoff=Backoff(first_s=0.001, longest_s=0.01))


def fetched(hub, target, **options):
    wanted = downloads.Options(**{"backoff": QUICK.backoff, **options})
    return downloads.fetch("hf://org/name", target, {"HF_ENDPOINT": hub.url}, options=wanted)


@pytest.mark.parametrize("seed", range(8))
def test_connections_that_break_at_any_byte_are_continued(hub, repository, tmp_path, seed):
    """Half of all responses break off, at random bytes; every file is as in the repository."""
    rng = random.Random(seed)

    def cut(path, length):
        return rng.choice([None, None, rng.randrange(length + 1), rng.randrange(min(length, 2000) + 1)])

    hub.cut = cut

    found = fetched(hub, tmp_path / "model", connections=rng.randint(1, 8))

    assert len(found.files) == len(repository.files)
    for path, content in repository.files.items():
        assert (tmp_path / "model" / path).read_bytes() == content


def test_what_has_arrived_is_not_requested_again(hub, repository, tmp_path):
    """The rest of a part is requested from where the connection broke."""
    broken = []

    def cut(path, length):
        if "00001" in path and not broken:
            broken.append(path)
            return 1_000_000
        return None

    hub.cut = cut
    fetched(hub, tmp_path / "model", connections=1)

    assert hub.reads("model-00001.safetensors") == [
        "bytes=0-16777215",
        "bytes=1000000-16777215",
        "bytes=16777216-17277215",
    ]


def test_a_server_that_never_gets_further_is_given_up(hub, repository, tmp_path):
    """A byte for each connection is no progress: the number of attempts is limited."""
    hub.cut = lambda path, length: 1

    with pytest.raises(downloads.DownloadError, match=r"failed 8 times in a row: .*; it continues") as told:
        fetched(hub, tmp_path / "model", connections=1)

    assert told.value.reason is downloads.Reason.UNREACHABLE
    assert len(hub.requests) <= 10


def test_a_file_that_arrives_wrong_is_fetched_once_more(hub, repository, tmp_path):
    """The hashes of the hub decide; for small files, those of their git blobs."""
    wrong = {"config.json": b'{"architectures": {}}', "model-00002.safetensors": b"x" * (16 << 20)}
    served = []

    def answer(handler):
        for path, content in wrong.items():
            if handler.path.endswith(path) and path not in served:
                served.append(path)
                start, end = (int(each) for each in handler.headers["Range"][6:].split("-"))
                size = len(repository.files[path])
                headers = {"Content-Range": f"bytes {start}-{end}/{size}"}
                handler.respond((content * 2)[: end - start + 1], headers, 206)
                return True
        return False

    hub.answer = answer
    fetched(hub, tmp_path / "model")

    assert set(served) == set(wrong)
    for path, content in repository.files.items():
        assert (tmp_path / "model" / path).read_bytes() == content


def test_a_file_that_is_always_wrong_is_an_error(hub, repository, tmp_path):
    """Nothing appears at the target; the message names the file and both hashes."""

    def answer(handler):
        if handler.path.endswith("/config.json"):
            handler.respond(b"y" * 21, {"Content-Range": "bytes 0-20/21"}, 206)
            return True
        return False

    hub.answer = answer
    with pytest.raises(
        downloads.DownloadError, match=r"config.json has the SHA-1 hash \w+ instead of"
    ) as told:
        fetched(hub, tmp_path / "model")

    assert told.value.reason is downloads.Reason.CORRUPT
    assert not (tmp_path / "model").exists()


def test_temporary_errors_are_waited_for(hub, repository, tmp_path):
    """429 and 503 are repeated, for the listing as well as for files."""
    left = {"/api/": 2, "/resolve/": 3}

    def answer(handler):
        kind = next(kind for kind in left if kind in handler.path)
        if not left[kind]:
            return False
        left[kind] -= 1
        handler.respond(b"", {}, 503 if left[kind] % 2 else 429)
        return True

    hub.answer = answer
    fetched(hub, tmp_path / "model", connections=1)

    assert left == {"/api/": 0, "/resolve/": 0}


def test_a_branch_that_moves_ends_in_one_commit(hub, repository, tmp_path):
    """An earlier attempt was interrupted; files that did not change are not fetched again."""
    hub.cut = lambda path, length: 0 if "00002" in path else None
    with pytest.raises(downloads.DownloadError):
        fetched(hub, tmp_path / "model", connections=1)
    hub.cut = lambda path, length: None
    hub.requests.clear()
    repository.commit = "d" * 40
    repository.files["config.json"] = b'{"new": 1}'
    del repository.files["empty.txt"]

    found = fetched(hub, tmp_path / "model", connections=1)

    assert found.revision == "d" * 40
    assert (tmp_path / "model/config.json").read_bytes() == b'{"new": 1}'
    assert not (tmp_path / "model/empty.txt").exists()
    assert hub.reads("model-00001.safetensors") == []
