"""deploy/crds/ is what `headgate crds` prints, byte by byte."""

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from headgate import api
from headgate.cli import main

CHECKED_IN = Path(__file__).parents[3] / "deploy" / "crds"
HOW = "write them anew with `headgate crds --dir deploy/crds`"


def run(*words: str) -> str:
    result = CliRunner().invoke(main, ["crds", *words])
    assert result.exit_code == 0, result.output
    return result.output


def loaded(text: str) -> list[Any]:
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def test_the_directory_has_exactly_the_files_that_the_command_writes(tmp_path: Path) -> None:
    """A type, default, limit or description that changed without its CRD is found here."""
    run("--dir", str(tmp_path))
    made = {file.name: file.read_text() for file in tmp_path.iterdir()}
    kept = {file.name: file.read_text() for file in CHECKED_IN.glob("*.yaml")}
    assert sorted(made) == sorted(kept), HOW
    assert [name for name in made if made[name] != kept[name]] == [], HOW


def test_yaml_and_json_say_the_same() -> None:
    """Both are the definitions themselves, in their order."""
    printed = loaded(run())
    assert printed == api.custom_definitions()
    assert json.loads(run("-o", "json"))["items"] == printed


def test_no_part_is_an_alias_of_another() -> None:
    """YAML anchors would be valid, but hide what a reader looks for."""
    tokens = yaml.scan(run(), Loader=yaml.CSafeLoader)
    assert not any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in tokens)


def test_kinds_are_chosen_by_any_of_their_names() -> None:
    """Kind, plural, short name and qualified name, in any case, and each only once."""
    for name in ("ModelRoute", "modelroutes", "mr", "MR", "modelroutes.networking.volcano.sh"):
        assert [d["spec"]["names"]["kind"] for d in loaded(run(name))] == ["ModelRoute"], name
    both = loaded(run("ms", "mr", "ModelServer"))
    assert [d["spec"]["names"]["kind"] for d in both] == ["ModelServer", "ModelRoute"]
    assert json.loads(run("mr", "-o", "json"))["kind"] == "CustomResourceDefinition"


def test_a_mistyped_kind_suggests_the_one_that_was_meant() -> None:
    """Exit code 2, as for every usage error."""
    result = CliRunner().invoke(main, ["crds", "modelrout"])
    assert result.exit_code == 2
    assert "Headgate has no kind 'modelrout'. Did you mean ModelRoute" in result.output


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """The message names the path and the cause."""
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["crds", "--dir", str(tmp_path / "file" / "crds")])
    assert result.exit_code == 1
    assert result.output == f"Error: {tmp_path}/file/crds: Not a directory\n"
