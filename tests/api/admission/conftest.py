"""Objects in few words, and what admission says about them as kubectl would print it."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.api import admission
from headgate.api.unattended import UNATTENDED

# The tests of API servers use it as well.
sys.path.insert(0, str(Path(__file__).parent / "driver"))

Object = dict[str, Any]
Judge = Callable[..., tuple[list[str], list[str]]]

ROUTE = "networking.volcano.sh/v1alpha1", "ModelRoute"
SERVER = "networking.volcano.sh/v1alpha1", "ModelServer"
MODEL = "registry.volcano.sh/v1alpha1", "Model"
POLICY = "registry.volcano.sh/v1alpha1", "AutoscalingPolicy"
BINDING = "registry.volcano.sh/v1alpha1", "AutoscalingPolicyBinding"
POOL = "inference.networking.x-k8s.io/v1alpha1", "InferencePool"
POOL_V1 = "inference.networking.k8s.io/v1", "InferencePool"
INFERENCE_MODEL = "inference.networking.x-k8s.io/v1alpha1", "InferenceModel"
OBJECTIVE = "inference.networking.x-k8s.io/v1alpha2", "InferenceObjective"
VARIANT = "llmd.ai/v1alpha1", "VariantAutoscaling"


class Everything(admission.Gathered):
    """A view that has all there is, as a server's has."""

    among = ""


def _make(identity: tuple[str, str], name: str, spec: Object | None, **metadata: Any) -> Object:
    api_version, kind = identity
    obj: Object = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"} | metadata,
    }
    return obj | ({} if spec is None else {"spec": spec})


@pytest.fixture
def make() -> Callable[..., Object]:
    """make("route", "r", {spec}): an object; keyword arguments are metadata."""
    identities = {
        "route": ROUTE,
        "server": SERVER,
        "model": MODEL,
        "policy": POLICY,
        "binding": BINDING,
        "pool": POOL,
        "pool v1": POOL_V1,
        "inference model": INFERENCE_MODEL,
        "objective": OBJECTIVE,
        "variant": VARIANT,
        "pod": ("v1", "Pod"),
        "service": ("v1", "Service"),
        "config map": ("v1", "ConfigMap"),
        "secret": ("v1", "Secret"),
        "namespace": ("v1", "Namespace"),
        "lease": ("coordination.k8s.io/v1", "Lease"),
        "deployment": ("apps/v1", "Deployment"),
        "replica set": ("apps/v1", "ReplicaSet"),
        "stateful set": ("apps/v1", "StatefulSet"),
        "autoscaler": ("autoscaling/v2", "HorizontalPodAutoscaler"),
    }

    def made(what: str, name: str, spec: Object | None = None, **metadata: Any) -> Object:
        return copy.deepcopy(_make(identities[what], name, spec, **metadata))

    return made


@pytest.fixture
def judge() -> Judge:
    """judge(obj, *others, old=None): the messages of errors, and the warnings, but for the one that all
    objects of a kind have on which nothing acts."""

    def judged(obj: Object, *others: Object, old: Object | None = None) -> tuple[list[str], list[str]]:
        found = admission.check(obj, old, Everything(others))
        of_kind = UNATTENDED.get((str(obj["apiVersion"]).rpartition("/")[0], obj["kind"]))
        warnings = [each for each in found.warnings if each != f"kind: {of_kind}"]
        return [error.message() for error in found.errors], warnings

    return judged
