"""Directories of deleted Pods: whatever containers leave in them, they go, and nothing else does."""

import os

from headgate.node.pod_directories import PodDirectories


def test_all_volumes_of_a_pod_go(tmp_path):
    """Also directories that forbid it, and links, but not what these lead to; claims and others stay."""
    (tmp_path / "memory").mkdir()
    (tmp_path / "host").mkdir(mode=0o500)
    directories = PodDirectories(tmp_path / "state", tmp_path / "memory")
    claim = directories.claim("ns", "models")
    for in_memory in (False, True):
        path = directories.create(directories.volume("u-1", "v", in_memory=in_memory))
        (path / "deep" / "er").mkdir(parents=True)
        (path / "deep" / "er" / "file").touch()
        (path / "host").symlink_to(tmp_path / "host")
        os.chmod(path / "deep" / "er", 0)
        os.chmod(path / "deep", 0o500)
    directories.create(directories.volume("u-2", "v"))
    directories.message_file("u-1", "c")
    assert directories.uids() == {"u-1", "u-2"}
    directories.remove("u-1")
    assert directories.uids() == {"u-2"}
    assert claim.is_dir()
    assert not list((tmp_path / "memory").iterdir())
    assert (tmp_path / "host").stat().st_mode & 0o777 == 0o500


def test_only_the_user_of_the_node_can_look_in(tmp_path):
    """A volume is open to every user of its Pod, below a directory that is open to nobody else."""
    directories = PodDirectories(tmp_path / "state", tmp_path)
    path = directories.create(directories.volume("u-1", "v"))
    assert path.stat().st_mode & 0o777 == 0o777
    assert path.parent.stat().st_mode & 0o777 == 0o700
