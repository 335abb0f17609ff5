"""hostPath volumes: types are checked, and create only what they say."""

import socket
from pathlib import Path

import pytest

from headgate.node import host_paths
from headgate.node.pod_spec import HostPath
from headgate.node.volume_files import VolumeError


def provide(path: Path | str, kind: str = "") -> Path:
    return host_paths.provide(HostPath(path=str(path), type=kind))


def test_types_create_or_check(tmp_path):
    """The types with OrCreate create; the others accept what is there."""
    assert provide(tmp_path / "a" / "b", "DirectoryOrCreate").is_dir()
    assert provide(tmp_path / "f", "FileOrCreate").read_bytes() == b""
    assert provide(tmp_path / "f", "File") == provide(tmp_path / "f")
    assert provide("/dev/null", "CharDevice") == Path("/dev/null")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        assert provide(tmp_path / "s", "Socket").exists()


@pytest.mark.parametrize(
    ("path", "kind", "named"),
    [
        ("none", "Directory", "does not exist"),
        ("none", "", "DirectoryOrCreate creates it"),
        ("f", "Directory", "not a directory"),
        ("f", "DirectoryOrCreate", "not a directory"),
        ("f", "Socket", "not a socket"),
        (".", "File", "not a file"),
        ("f", "Pipe", "hostPath.type 'Pipe' is none of"),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path, path, kind, named):
    (tmp_path / "f").touch()
    with pytest.raises(VolumeError, match=named):
        provide(tmp_path / path, kind)


def test_a_relative_path_is_refused():
    with pytest.raises(VolumeError, match="not absolute"):
        provide("x", "Directory")
