"""What the builders of one Model's objects share, and the values that they return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headgate import api
from headgate.controllers.model import names
from headgate.controllers.model.settings import ModelSettings


class Child(NamedTuple):
    """An object that the Model should have."""

    kind: type[Any]
    manifest: dict[str, Any]
    """All fields that the controller owns, without a status."""

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])

    @property
    def id(self) -> tuple[str, str]:
        """Plural and name: unique among the objects of a namespace that Models have."""
        return self.kind.resource.plural, self.name


class Problem(NamedTuple):
    """A part of the Model that cannot be done as it is written."""

    field: str
    message: str


@dataclass(frozen=True)
class Observed:
    """What the objects of a Model depend on besides the Model."""

    ready: Mapping[str, int] = field(default_factory=dict)
    """Ready replicas by the name of the workload; not those of a former one of the same name, but of another
    kind."""
    scaled: Mapping[str, int] = field(default_factory=dict)
    """Replicas now, of workloads whose replicas somebody else owns: their manifests have none."""
    leaving: Sequence[str] = ()
    """Names of ModelServers of which former Pods still serve: those of former backends, of former workloads,
    and of backends that cannot be made as they are written."""
    placed: Mapping[str, str] = field(default_factory=dict)
    """The ModelRoute of the Model that has an adapter, by the adapter's name."""
    called: Mapping[str, str] = field(default_factory=dict)
    """What requests call the Model by, by the name of the ModelRoute; empty for one of adapters only."""


@dataclass(frozen=True)
class Scope:
    """One Model, and what was found wrong with it so far."""

    model: api.Model
    settings: ModelSettings
    observed: Observed
    problems: list[Problem] = field(default_factory=list)

    def report(self, field: str, message: str) -> None:
        self.problems.append(Problem(field, message))

    def child(
        self, kind: type[Any], name: str, spec: Mapping[str, Any], backend: str = "", **metadata: Any
    ) -> Child:
        """An object of the Model with this spec."""
        model = self.model
        owner = {
            "apiVersion": api.Model.resource.api_version,
            "kind": api.Model.resource.kind,
            "name": model.metadata.name,
            "uid": model.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        manifest = {
            "apiVersion": kind.resource.api_version,
            "kind": kind.resource.kind,
            "metadata": {
                "name": name,
                "namespace": model.metadata.namespace,
                "labels": names.labels(model, backend),
                "ownerReferences": [owner],
                **metadata,
            },
            "spec": spec,
        }
        return Child(kind, manifest)
