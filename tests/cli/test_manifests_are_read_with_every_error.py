"""Files, directories and standard input become objects, or a list of everything that is wrong with them."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.manifests import ManifestErrors, load

ROUTE = "apiVersion: networking.volcano.sh/v1alpha1\nkind: ModelRoute\nmetadata: {name: r}\n"
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n"


def test_a_directory_is_read_in_order_with_what_others_need_first(tmp_path: Path) -> None:
    """All manifests below it, by name; a Namespace goes before what lives in it."""
    (tmp_path / "b").mkdir()
    (tmp_path / "a.yaml").write_text(f"{ROUTE}---\n{NAMESPACE}")
    (tmp_path / "b" / "c.json").write_text(
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}'
    )
    (tmp_path / "notes.txt").write_text("not: [a manifest")
    assert [manifest.kind for manifest in load([str(tmp_path)])] == ["Namespace", "ConfigMap", "ModelRoute"]


def test_an_object_knows_where_it_stands(tmp_path: Path) -> None:
    """Messages name the file and the line where the document begins."""
    file = tmp_path / "two.yaml"
    file.write_text(f"# a comment\n{ROUTE}---\n# another\n{NAMESPACE}")
    assert [manifest.source for manifest in load([str(file)])] == [f"{file}:7", f"{file}:2"]


def test_a_list_is_its_items(tmp_path: Path) -> None:
    """kind: List, as `kubectl get -o yaml` prints it, is read as the objects inside."""
    file = tmp_path / "list.yaml"
    file.write_text(
        "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- 5\n"
    )
    with pytest.raises(ManifestErrors) as refused:
        load([str(file)])
    assert refused.value.errors == [
        f"{file}:5:3: a manifest is a mapping with apiVersion, kind and metadata, not a single value"
    ]


def test_all_errors_come_at_once(tmp_path: Path) -> None:
    """Each error has its place; none hides another."""
    (tmp_path / "a.yaml").write_text("kind: ModelRoute\n")
    (tmp_path / "b.yaml").write_text("key: [1,\n")
    (tmp_path / "c.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ManifestErrors) as refused:
        load([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"), str(tmp_path / "c.yaml"), "absent.yaml"])
    first, second, third, fourth = refused.value.errors
    assert first.endswith("a.yaml:1:1: lacks apiVersion and metadata.name")
    assert "b.yaml:2:1: not YAML" in second
    assert third.endswith(
        "c.yaml: the file is not UTF-8: line 1, byte 0 of the file, is 0xff (invalid start byte); "
        "save it as UTF-8"
    )
    assert fourth == "absent.yaml: No such file or directory"


def test_metadata_of_another_type_is_named(tmp_path: Path) -> None:
    """YAML takes an unquoted number for one; a name that the server would make cannot be applied again."""
    file = tmp_path / "a.yaml"
    file.write_text(
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: 123, annotations: [a]}}\n"
        "--- \n{apiVersion: v1, kind: ConfigMap, metadata: {generateName: c-}}\n"
    )
    with pytest.raises(ManifestErrors) as refused:
        load([str(file)])
    assert refused.value.errors == [
        f"{file}:1:52: metadata.name: must be text (in quotes, if YAML reads it as another type), not 123",
        f"{file}:1:70: metadata.annotations: must be a mapping, not ['a']",
        f"{file}:3:35: lacks metadata.name",
    ]


def test_nothing_to_apply_is_an_error(tmp_path: Path) -> None:
    """An empty directory is most likely a mistyped one."""
    with pytest.raises(ManifestErrors, match="no manifests found"):
        load([str(tmp_path)])


def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads what is piped in."""
    monkeypatch.setattr("sys.stdin", io.StringIO(ROUTE))
    assert [manifest.source for manifest in load(["-"])] == ["<stdin>:1"]


@given(text=st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever a file holds, the reader ends with objects or with errors that name the file."""
    file = tmp_path_factory.mktemp("any") / "any.yaml"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        assert load([str(file)])
    except ManifestErrors as refused:
        assert all(str(file) in error for error in refused.errors)
