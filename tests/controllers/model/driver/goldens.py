"""The objects of some Models, in files: `python tests/controllers/model/driver/goldens.py` writes them again.

models/NAME.yaml is a Model, golden/NAME.yaml has its objects as the controller applies them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from headgate import api
from headgate.controllers.model import ModelSettings, Observed, children_of

HERE = Path(__file__).parents[1]
MODELS = sorted((HERE / "models").glob("*.yaml"))
UID = "00000000-1111-2222-3333-444444444444"


def stored(manifest: dict[str, Any]) -> api.Model:
    """A Model as an API server has it."""
    metadata = {"namespace": "default", "uid": UID, **manifest["metadata"]}
    return msgspec.convert({**manifest, "metadata": metadata}, api.Model)


def golden(model: Path) -> Path:
    return HERE / "golden" / model.name


def text(model: Path) -> str:
    """The objects of the Model, and its problems as comments."""
    children = children_of(stored(yaml.safe_load(model.read_text())), ModelSettings(), Observed())
    problems = "".join(f"# {problem.field}: {problem.message}\n" for problem in children.problems)
    documents = [
        yaml.dump(child.manifest, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=110)
        for child in children.children
    ]
    return problems + "---\n".join(documents)


class _Dumper(yaml.SafeDumper):
    """Without references, and with texts of several lines as they are read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _string)

if __name__ == "__main__":
    for path in MODELS:
        golden(path).write_text(text(path))
