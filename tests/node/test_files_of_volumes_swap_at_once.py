"""Files of ConfigMaps and Secrets: contents, modes, and versions that replace each other in one step."""

import os
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.node import downward, payload, pod_spec, volume_files
from headgate.node.references import Contents, Reference
from headgate.node.volume_files import File, VolumeError

versions = st.dictionaries(
    st.sampled_from(["a", "b/one", "b/two", "c.txt", ".hidden"]),
    st.tuples(st.binary(max_size=4), st.sampled_from([0o644, 0o600, 0o755])),
)


def seen(directory: Path) -> dict[str, tuple[bytes, int]]:
    """What a program finds that lists the directory and follows links."""
    found = {}
    for parent, folders, files in os.walk(directory, followlinks=True):
        folders[:] = [each for each in folders if not each.startswith("..")]
        for name in files:
            path = Path(parent, name)
            found[str(path.relative_to(directory))] = (path.read_bytes(), path.stat().st_mode & 0o777)
    return found


@given(st.lists(versions, min_size=1, max_size=4))
def test_the_last_version_is_what_is_seen(history):
    """Whatever was there before, and nothing else; an equal version changes nothing."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary, "v")
        for version in history:
            files = [File(path, *rest) for path, rest in version.items()]
            payload.write(directory, files)
            assert seen(directory) == version
            assert not payload.write(directory, files)
        assert len(list(directory.glob("..version-*"))) == 1


def test_an_open_directory_keeps_its_version(tmp_path):
    """A program that has entered the old version reads all of it, or finds it gone, but never a mixture."""
    payload.write(tmp_path, [File("a", b"1", 0o644), File("b", b"1", 0o644)])
    version = (tmp_path / "..data").resolve()
    payload.write(tmp_path, [File("a", b"2", 0o644)])
    assert (tmp_path / "a").read_bytes() == b"2"
    assert not (tmp_path / "b").is_symlink()
    assert not version.exists()


def files_of(
    volume: dict, found: dict[Reference, Contents | None] | None = None
) -> dict[str, tuple[bytes, int]]:
    pod = api.Pod(metadata=api.ObjectMeta(name="p", namespace="ns", labels={"a": 'x"y', "b": "z"}))
    who = downward.PodIdentity(pod, "n", "10.0.0.1", "10.0.0.2", allocatable={"memory": "2Gi"})
    spec = msgspec.convert({"containers": [{"name": "c"}]}, pod_spec.PodSpec)
    inputs = volume_files.Inputs(spec, who, found or {}, {})
    made = volume_files.files(msgspec.convert({"name": "v", **volume}, pod_spec.Volume), inputs)
    return {each.path: (each.content, each.mode) for each in made}


S, C = Reference("Secret", "s"), Reference("ConfigMap", "c")
HELD = Contents({"k": b"1"}, {"k": b"1", "blob": b"\0"})


def test_every_source_has_its_files_and_modes():
    """Later sources of a projected volume win; modes of items come before those of the volume."""
    assert files_of({"configMap": {"name": "c", "defaultMode": 0o400}}, {C: HELD}) == {
        "k": (b"1", 0o400),
        "blob": (b"\0", 0o400),
    }
    items = [{"key": "k", "path": "a/b", "mode": 0o600}]
    assert files_of({"secret": {"secretName": "s", "items": items}}, {S: HELD}) == {"a/b": (b"1", 0o600)}
    fields = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {
            "path": "memory",
            "resourceFieldRef": {"containerName": "c", "resource": "limits.memory", "divisor": "1Mi"},
        },
    ]
    assert files_of({"downwardAPI": {"items": fields}}) == {
        "labels": (b'a="x\\"y"\nb="z"', 0o644),
        "memory": (b"2048", 0o644),
    }
    sources = [
        {"configMap": {"name": "c"}},
        {"secret": {"name": "s", "items": [{"key": "blob", "path": "k"}]}},
    ]
    assert files_of({"projected": {"sources": sources}}, {C: HELD, S: HELD})["k"] == (b"\0", 0o644)
    optional = {"secret": {"secretName": "s", "optional": True, "items": [{"key": "no", "path": "x"}]}}
    assert files_of(optional, {S: None}) == files_of(optional, {S: HELD}) == {}


@pytest.mark.parametrize(
    ("volume", "named"),
    [
        ({"configMap": {"name": "c"}}, 'ConfigMap "c" not found'),
        (
            {"secret": {"secretName": "s", "items": [{"key": "no", "path": "x"}]}},
            "key 'no' not found in Secret",
        ),
        ({"secret": {"secretName": "s", "items": [{"key": "k", "path": "../x"}]}}, r"'\.\./x'"),
        ({"secret": {"secretName": "s", "items": [{"key": "k", "path": "/x"}]}}, "'/x'"),
        ({"secret": {"secretName": "s", "items": [{"key": "k", "path": "..data"}]}}, r"'\.\.data'"),
        (
            {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "spec.y"}}]}},
            "file 'x'.*'spec.y'",
        ),
        ({"downwardAPI": {"items": [{"path": "x"}]}}, "neither a fieldRef"),
        ({"projected": {"sources": [{"clusterTrustBundle": {}}]}}, "not supported here"),
    ],
)
def test_what_is_missing_is_named(volume, named):
    """An error says which object, key or file; no path leads out of the volume."""
    with pytest.raises(VolumeError, match=named):
        files_of(volume, {C: None, S: HELD})


def test_a_version_that_cannot_be_written_leaves_no_copies(tmp_path):
    """A file cannot be a directory as well, as the keys of a Secret may say."""
    files = [File("x", b"secret", 0o644), File("x/y", b"secret", 0o644)]
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        payload.write(tmp_path, files)
    assert list(tmp_path.iterdir()) == []
