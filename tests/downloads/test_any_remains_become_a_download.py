"""Whatever an earlier process or a loss of power left in the work directory, the result is right."""

import hashlib
import tempfile
from pathlib import Path

import hypothesis
from hypothesis import strategies as st

from headgate import downloads
from headgate.downloads.listing import RemoteFile
from headgate.downloads.partial import PART_BYTES, PartialFile, name_of

CONTENT = {"weights": b"w" * (PART_BYTES + 1000), "config.json": b"{}"}

journals = st.binary(max_size=30) | st.lists(
    st.sampled_from(["0", "1", "2", "-1", "01", "9" * 9, "x", ""]), max_size=5
).map(lambda words: "\n".join(words).encode())
remains = st.dictionaries(
    st.sampled_from(["parts/NAME", "parts/NAME.parts", "files/weights", "complete.jsonl", "lease.json"]),
    st.one_of(journals, st.just(CONTENT["weights"]), st.just(b"x" * len(CONTENT["weights"]))),
)


def listed(source: Path) -> RemoteFile:
    found = (source / "weights").stat()
    return RemoteFile("weights", found.st_size, etag=f"{found.st_mtime_ns}-{found.st_ino}")


@hypothesis.settings(max_examples=25)
@hypothesis.given(remains)
def test_remains_never_make_a_download_fail(left):
    """Partial files of any length, journals that were cut off, files that nobody knows."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.mkdir()
        for name, content in CONTENT.items():
            (source / name).write_bytes(content)
        for name, content in left.items():
            path = Path(folder, ".headgate", "target", name.replace("NAME", name_of(listed(source))))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

        found = downloads.fetch(str(source), target, {})

        assert [file.path for file in found.files] == sorted(CONTENT)
        for file in found.files:
            content = (target / file.path).read_bytes()
            assert len(content) == len(CONTENT[file.path])
            assert file.sha256 == hashlib.sha256(content).hexdigest()


def test_a_journal_that_says_too_much_is_found_out(tmp_path):
    """Power was lost before the content was on the disk; the hash of the source tells."""
    content = b"a" * PART_BYTES + b"b" * PART_BYTES
    file = RemoteFile("weights", len(content), sha256=hashlib.sha256(content).hexdigest())
    (tmp_path / name_of(file)).write_bytes(b"\0" * PART_BYTES + content[PART_BYTES:])
    (tmp_path / f"{name_of(file)}.parts").write_text("0\n1\n")

    partial = PartialFile(tmp_path, file)
    assert partial.missing() == []
    assert "has the SHA-256 hash" in partial.finish(lambda: None).problem()

    partial.discard()
    assert partial.missing() == [0, 1]
    for part in (1, 0):
        start, end = partial.range(part)
        partial.write(content[start:end], start)
        partial.complete(part, lambda: None)
    assert partial.finish(lambda: None).problem() == ""
    partial.close()
