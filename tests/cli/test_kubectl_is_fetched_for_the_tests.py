"""`make unit` gets a kubectl where there is none, checks it, and says so where it cannot."""

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "fetch_kubectl.sh"
KUBECTL = b"#!/bin/sh\necho Client Version\n"
TOOLS = (
    *("bash", "env", "sh", "uname", "tr", "mktemp", "sha256sum", "cat", "awk", "sort"),
    *("mkdir", "chmod", "rm", "mv", "cp", "dirname"),
)

CURL = """#!/bin/sh
# A download page: the last argument but one is -o, the one before the address.
for word; do
	case $word in
	https://dl.k8s.io/release/v*/bin/*/kubectl) name=kubectl ;;
	https://*.sha256) name=sha256 ;;
	esac
	before=$last last=$word
done
[ -f {page}/$name ] && cp {page}/$name "$last"
"""


@pytest.fixture
def fetch(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the script on a machine without kubectl and Go, where the download page has these files."""
    programs, page = tmp_path / "bin", tmp_path / "page"
    programs.mkdir()
    page.mkdir()
    for name in TOOLS:
        path = next(Path(folder, name) for folder in ("/usr/bin", "/bin") if Path(folder, name).exists())
        (programs / name).symlink_to(path)
    (programs / "curl").write_text(CURL.format(page=page))
    (programs / "curl").chmod(0o755)

    def run(*words: str, **files: bytes) -> subprocess.CompletedProcess[str]:
        for name, content in files.items():
            (page / name).write_bytes(content)
        environment = {
            "PATH": str(programs),
            "HOME": str(tmp_path),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        }
        return subprocess.run(
            [SCRIPT, *words], env=environment, capture_output=True, text=True, timeout=60, check=True
        )

    return run


def fetched(tmp_path: Path) -> list[str]:
    return [str(path.relative_to(tmp_path)) for path in tmp_path.glob("cache/headgate/*/*")]


def test_a_release_with_its_checksum(fetch, tmp_path):
    """It lies in the user's cache, where the tests look for it, and is not fetched again."""
    done = fetch(kubectl=KUBECTL, sha256=hashlib.sha256(KUBECTL).hexdigest().encode())
    assert "Fetching kubectl " in done.stdout
    kept = Path(fetch("--path").stdout.strip())
    assert kept.read_bytes() == KUBECTL
    assert os.access(kept, os.X_OK)
    assert fetched(tmp_path) == [str(kept.relative_to(tmp_path))]
    again = fetch()
    assert (again.stdout, again.stderr) == ("", "")


@pytest.mark.parametrize(
    "files",
    [{}, {"kubectl": KUBECTL}, {"kubectl": KUBECTL, "sha256": b"0" * 64}, {"sha256": b"0" * 64}],
    ids=["nothing there", "no checksum", "another checksum", "no file"],
)
def test_what_cannot_be_checked_is_not_used(fetch, tmp_path, files):
    """The tests that need it are skipped, which the message says; the others run."""
    done = fetch(**files)
    assert "There is no kubectl" in done.stderr
    assert "are skipped" in done.stderr
    assert "HEADGATE_KUBECTL" in done.stderr
    assert fetched(tmp_path) == []
