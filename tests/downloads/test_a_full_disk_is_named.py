"""Space is checked before a download begins; a disk that fills up meanwhile ends it with the same advice."""

import os
import shutil
import subprocess
import sys

import pytest

from headgate import downloads
from headgate.downloads import space

_MOUNTED = """
mount -t tmpfs -o size={size} tmpfs {folder} || exit 99
{fill}
"$@"
code=$?
{after}
exit $code
"""


def has_namespaces():
    tried = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False)
    return tried.returncode == 0


def on_small_disk(hub, folder, size, fill="", after=""):
    """Runs a download in a mount namespace in which the folder is a tmpfs of this size."""
    script = _MOUNTED.format(size=size, folder=folder, fill=fill, after=after)
    command = [sys.executable, "-P", "-m", "headgate", "download", "--source", "hf://org/name"]
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *command, "--output-dir", folder / "model"],
        env={"PATH": os.environ["PATH"], "HF_ENDPOINT": hub.url, "HF_HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_space_is_checked_before_a_file_is_requested(hub, repository, tmp_path):
    """The message has both numbers."""
    if not has_namespaces():
        pytest.skip("this machine does not let its users mount a small disk")
    done = on_small_disk(hub, tmp_path, "40m")

    assert done.returncode == 27, done.stderr
    assert (
        "has 41.9 MB free, but the download needs 50.8 MB: free space, or use a larger volume" in done.stderr
    )
    assert not [path for path, _ in hub.requests if "/resolve/" in path]


def test_a_disk_that_fills_up_keeps_what_has_arrived(hub, repository, tmp_path):
    """Another process of the volume was faster. The next attempt continues once there is space."""
    if not has_namespaces():
        pytest.skip("this machine does not let its users mount a small disk")
    hub.pace_s = 0.003
    again = f'"$@"; code=$?; ls {tmp_path}/model {tmp_path}/.headgate/model; exit $code'
    done = on_small_disk(
        hub,
        tmp_path,
        "64m",
        fill=f"(while ! ls {tmp_path}/.headgate/model/parts/* ; do sleep 0.05; done; "
        f"head -c 50000000 /dev/zero > {tmp_path}/other) >/dev/null 2>&1 &",
        after=f"[ $code = 27 ] || exit 98; rm {tmp_path}/other; {again}",
    )

    assert done.returncode == 0, done.stderr
    assert "no space left for the download (No space left on device): free space" in done.stderr
    assert "model-00001.safetensors" in done.stdout


def test_the_limit_of_a_file_is_named(hub, repository, tmp_path):
    """A quota or a limit of the filesystem is no space too."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20 << 20, 20 << 20));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "from headgate.cli import main; main()"
    )
    repository.files["model-00001.safetensors"] *= 2
    command = [sys.executable, "-P", "-c", code, "download", "--source", "hf://org/name"]
    done = subprocess.run(
        [*command, "--output-dir", tmp_path / "model"],
        env={"PATH": os.environ["PATH"], "HF_ENDPOINT": hub.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 27, done.stderr
    assert "no space left for the download (File too large)" in done.stderr


def test_what_has_arrived_needs_no_space_again(tmp_path):
    """Only what is missing counts."""
    free = shutil.disk_usage(tmp_path).free
    space.require(tmp_path, 0)
    space.require(tmp_path, 1)
    with pytest.raises(downloads.DownloadError, match="or use a larger volume"):
        space.require(tmp_path, 2 * free)
