"""A19 on the command line: weights for some targets of an InferenceModel, and not for others."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner

from headgate import api, cluster
from headgate.cli import main, manifests
from headgate.cli.objects import sending

MODEL = """\
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferenceModel
metadata: {name: chat}
spec:
  modelName: chat
  poolRef: {name: pool}
  targetModels:
  - {name: a, weight: 90}
  - {name: b}
"""
TOLD = "Weights should be set for all models, or none of the models."
UNSET = "is not set and counts 1 beside those that are: set all of them, or none"


def test_validate_refuses_them_and_shows_what_is_left_out() -> None:
    """An error at the list, and a warning at each target that lacks its weight."""
    result = CliRunner().invoke(main, ["validate", "-f", "-"], input=MODEL, catch_exceptions=False)
    assert result.exit_code == 1
    assert f"spec.targetModels: Invalid value: {TOLD}" in result.output
    assert f"spec.targetModels[1].weight: {UNSET}" in result.output


def test_apply_shows_the_refusal_at_its_line(headgate: Any) -> None:
    """The server has refused it, by what was sent."""
    result = headgate.run("apply", "-f", "-", stdin=MODEL)
    assert result.exit_code == 1
    assert result.stderr.startswith("<stdin>:7:3: error: InferenceModel ")
    assert f"spec.targetModels: Invalid value: {TOLD}" in result.stderr


class Elsewhere(types.SimpleNamespace):
    """A client of a server that fills in defaults before it looks at rules, and warns of nothing."""

    namespace = "default"

    async def resource_of(self, api_version: str, kind: str) -> api.Resource:
        return api.InferenceModel.resource

    def path_of(self, resource: api.Resource, name: str, namespace: str | None) -> str:
        return name

    async def ask(self, method: str, path: str, content: Any = None, **_: Any) -> Any:
        if method == "GET":
            raise cluster.NotFound("there is none")
        return types.SimpleNamespace(body=msgspec.json.encode(content), warnings=[])


async def test_apply_to_a_server_that_takes_them_warns(tmp_path: Path) -> None:
    """It counts the default, and its answer does not show what was left out."""
    file = tmp_path / "model.yaml"
    file.write_text(MODEL)
    (manifest,) = manifests.load([str(file)])
    manner = sending.Manner(
        namespace=None, dry_run=False, force_conflicts=False, field_manager="me", output="text"
    )
    applied = await sending.send(Elsewhere(), manifest, manner)  # type: ignore[arg-type]
    assert [(each.path, each.message) for each in applied.warnings] == [
        ("spec.targetModels[1].weight", UNSET)
    ]
