"""Mounts of a container: which part of which volume, and what takes their place without mounts."""

from pathlib import Path

import msgspec
import pytest

from headgate import node
from headgate.cli import node as node_command
from headgate.node import mounts, pod_spec
from headgate.node.environment import ContainerConfigError
from headgate.node.mounts import Mount, Mounting, Mounts
from headgate.node.pod_volumes import Provided

INSTEAD = Mounts(
    Mounting.SUBSTITUTION,
    [Mount(Path("/s/config"), "/etc/config"), Mount(Path("/s/more"), "/etc/config/more")],
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/etc/config", "/s/config"),
        ("--config=/etc/config/app.yaml", "--config=/s/config/app.yaml"),
        ("/etc/config:/etc/config/more/x", "/s/config:/s/more/x"),
        ("file:///etc/config/x", "file:///s/config/x"),
        ("cat '/etc/config/x'", "cat '/s/config/x'"),
        ("/etc/configuration", "/etc/configuration"),
        ("/etc/config.d", "/etc/config.d"),
        ("/other/etc/config", "/other/etc/config"),
        ("x/etc/config", "x/etc/config"),
    ],
)
def test_mount_paths_are_replaced_where_a_path_begins_and_ends(text, expected):
    """Only whole paths, the longest mountPath first, and nothing that merely contains one."""
    assert INSTEAD.substituted(text) == expected


def test_real_mounts_need_no_other_words():
    """With mounts, texts stay, and the node finds the file that a container's path means."""
    real = Mounts(Mounting.NAMESPACE, INSTEAD.mounts)
    assert real.substituted("/etc/config") == "/etc/config"
    assert real.on_machine("/etc/config/more/../run.sh") == "/s/config/run.sh"
    assert real.on_machine("/etc/config/more/run.sh") == "/s/more/run.sh"
    assert real.on_machine("/etc/configuration") == "/etc/configuration"


def plan(tmp_path: Path, *, is_written: bool = False, **mount: object) -> Mounts:
    fields = {"name": "v", "mountPath": "/m"} | mount
    container = msgspec.convert({"name": "c", "volumeMounts": [fields]}, pod_spec.Container)
    provided = {"v": Provided(tmp_path, is_written=is_written)}
    return mounts.plan(container, provided, {"POD_NAME": "p"}, Mounting.NAMESPACE)


def test_a_missing_directory_of_a_volume_is_created(tmp_path):
    assert plan(tmp_path, subPathExpr="a/$(POD_NAME)").mounts == [Mount(tmp_path / "a" / "p", "/m")]
    assert (tmp_path / "a" / "p").is_dir()


@pytest.mark.parametrize(
    ("mount", "named"),
    [
        ({"name": "w"}, r"volumeMounts\[0\] w: the Pod has no such volume"),
        ({"mountPath": "m"}, "mountPath 'm'"),
        ({"mountPath": "/x/.."}, "mountPath '/x/..'"),
        ({"subPath": "../x"}, "subPath '../x' must be relative"),
        ({"subPath": "/x"}, "subPath '/x' must be relative"),
        ({"subPath": "out/x"}, "subPath 'out/x' leads out of the volume"),
        ({"subPathExpr": "$(OTHER)"}, "unknown variable"),
        ({"subPath": "x", "is_written": True}, "subPath 'x' not found in the volume"),
    ],
)
def test_a_mount_that_cannot_be_is_refused(tmp_path, mount, named):
    """The error names the mount and the value; links do not lead out of a volume."""
    (tmp_path / "out").symlink_to("/")
    with pytest.raises(ContainerConfigError, match=named):
        plan(tmp_path, **mount)


def test_the_first_line_tells_when_there_are_no_mounts(capfd):
    """Users of a machine without mounts learn it when the node starts."""
    for can_mount in (True, False):
        node_command._tell(node.Ready("n", "https://a", "http://b", False, mounts=can_mount))
        assert ("without mounts" in capfd.readouterr().out) is not can_mount
