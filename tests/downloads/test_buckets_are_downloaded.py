"""`s3://` sources are read from a real S3 server, with signed requests."""

import hashlib
import json
import os

import pytest

from headgate import downloads
from headgate.downloads.bucket import Bucket
from headgate.downloads.digests import Digests
from headgate.downloads.sources import parse


def test_all_objects_below_the_prefix_arrive(run, objects, tmp_path):
    """Names are kept, in whatever way they are encoded; objects beside the prefix are left out."""
    large = os.urandom(1 << 20) * 40
    files = {
        "config.json": b"{}",
        "weights of a model+1 (ä&).bin": large,
        "adapter/x=y.json": b"[]" * 700,
        "empty": b"",
    }
    for path, content in files.items():
        objects.put(f"org/name/{path}", content)
    objects.put("org/name-2/other", b"other")
    source = f"s3://{objects.bucket}/org/name"

    process = run("download", "--source", source, "--output-dir", tmp_path / "model", **objects.environment)
    told, problems = process.communicate(timeout=120)

    assert process.returncode == 0, problems + told
    found = {
        path.relative_to(tmp_path / "model").as_posix(): path.read_bytes()
        for path in (tmp_path / "model").rglob("*")
        if path.is_file() and path.parent.name != ".headgate"
    }
    assert found == files
    manifest = json.loads((tmp_path / "model" / ".headgate" / "manifest.json").read_text())
    assert manifest["files"][-1]["sha256"] == hashlib.sha256(large).hexdigest()


def test_a_listing_of_several_pages_is_read_to_its_end(run, objects, tmp_path):
    """S3 lists a thousand objects at a time."""
    for number in range(1003):
        objects.put(f"many/{number:04}", b"%d" % number)

    process = run(
        "download",
        "--source",
        f"s3://{objects.bucket}/many",
        "--output-dir",
        tmp_path / "many",
        **objects.environment,
    )
    _, problems = process.communicate(timeout=200)

    assert process.returncode == 0, problems
    assert (tmp_path / "many" / "1002").read_bytes() == b"1002"
    assert len([path for path in (tmp_path / "many").iterdir() if path.is_file()]) == 1003


def test_an_object_that_was_uploaded_in_parts_arrives(run, objects, tmp_path):
    """Its ETag is a hash of hashes."""
    parts = [os.urandom(5 << 20), os.urandom(5 << 20), b"the rest"]
    objects.put_in_parts("model/weights", parts)

    process = run(
        "download",
        "--source",
        f"s3://{objects.bucket}/model",
        "--output-dir",
        tmp_path / "model",
        **objects.environment,
    )

    assert process.wait(120) == 0
    assert (tmp_path / "model" / "weights").read_bytes() == b"".join(parts)


@pytest.mark.parametrize(
    "sizes", [[5 << 20, 5 << 20, 9], [5 << 20, 5 << 20], [7 << 20], [6 << 20, 5 << 20, 9], [9]], ids=str
)
def test_the_etag_of_parts_is_compared(objects, tmp_path, sizes):
    """It is the hash of the hashes of the parts; parts of different sizes are not compared."""
    parts = [os.urandom(size) for size in sizes]
    objects.put_in_parts("model/weights", parts)
    content = b"".join(parts)
    source = parse(f"s3://{objects.bucket}/model", objects.environment)

    (file,) = Bucket(source).list(downloads.Patterns()).files

    (tmp_path / "same").write_bytes(content)
    (tmp_path / "other").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    problems = {}
    for name in ("same", "other"):
        with (tmp_path / name).open("rb") as opened:
            digests = Digests(file)
            digests.read_up_to(opened.fileno(), file.size, lambda: None)
            problems[name] = digests.problem()
    assert file.etag.endswith(f"-{len(sizes)}")
    assert problems["same"] == ""
    assert ("has the MD5 hash" in problems["other"]) == (sizes != [6 << 20, 5 << 20, 9])


def test_parts_that_only_seem_to_be_of_one_size_are_no_error(objects, tmp_path):
    """The first part suggests a size that gives the same number of parts; the others are looked up then."""
    parts = [os.urandom(size) for size in (6 << 20, 5 << 20, 5 << 20)]
    objects.put_in_parts("model/weights", parts)

    downloads.fetch(f"s3://{objects.bucket}/model", tmp_path / "model", objects.environment)

    assert (tmp_path / "model/weights").read_bytes() == b"".join(parts)


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"SECRET_KEY": "wrong"}, 26, "check ACCESS_KEY and SECRET_KEY"),
        ({"ACCESS_KEY": "nobody"}, 26, "check ACCESS_KEY and SECRET_KEY"),
        ({"ACCESS_KEY": "", "SECRET_KEY": ""}, 25, "set ACCESS_KEY and SECRET_KEY"),
        ({"ACCESS_KEY": ""}, 25, "the variable ACCESS_KEY is missing"),
    ],
)
def test_credentials_that_are_not_accepted_are_named(run, objects, tmp_path, changes, code, message):
    """The message says which variables to set."""
    objects.put("model/file", b"content")

    process = run(
        "download",
        "--source",
        f"s3://{objects.bucket}/model",
        "--output-dir",
        tmp_path / "model",
        **{**objects.environment, **changes},
    )
    _, problems = process.communicate(timeout=120)

    assert process.returncode == code, problems
    assert message in problems


@pytest.mark.parametrize(
    ("path", "code", "message"), [("", 22 + 1, "has no files"), ("elsewhere", 23, "has no files")]
)
def test_an_empty_prefix_is_named(run, objects, tmp_path, path, code, message):
    """A prefix without objects is an error: S3 does not know directories."""
    process = run(
        "download",
        "--source",
        f"s3://{objects.bucket}/{path}",
        "--output-dir",
        tmp_path / "model",
        **objects.environment,
    )
    _, problems = process.communicate(timeout=120)

    assert process.returncode == code
    assert message in problems


def test_a_bucket_that_does_not_exist_is_named(run, objects, tmp_path):
    """The message names the bucket and the endpoint."""
    process = run(
        "download",
        "--source",
        "s3://no-such-bucket/x",
        "--output-dir",
        tmp_path / "model",
        **objects.environment,
    )
    _, problems = process.communicate(timeout=120)

    assert process.returncode == 21
    assert f"{objects.url} has no bucket no-such-bucket" in problems


def test_the_same_bucket_of_another_server_is_another_model(objects, tmp_path):
    """A directory of the cache is not taken for it."""
    objects.put("model/file", b"content")
    source = f"s3://{objects.bucket}/model"
    downloads.fetch(source, tmp_path / "model", objects.environment)

    with pytest.raises(
        downloads.DownloadError, match=r"holds .* of http://127.*, but .* of https://other is wanted"
    ):
        downloads.fetch(source, tmp_path / "model", {**objects.environment, "ENDPOINT": "https://other"})
