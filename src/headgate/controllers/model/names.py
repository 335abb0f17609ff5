"""Names and labels of the objects of a Model.

A name that is too long for its place keeps its beginning and gets a hash of the whole.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from headgate import api
from headgate.api import kthena_registry, marks

GROUP: Final = kthena_registry.GROUP
MODEL_NAME: Final = f"{GROUP}/model-name"
MODEL_UID: Final = f"{GROUP}/model-uid"
BACKEND_NAME: Final = f"{GROUP}/backend-name"
MANAGED_BY: Final = f"{GROUP}/managed-by"

WORKLOAD: Final = "modelinfer.volcano.sh/name"
"""On Pods: the workload that they belong to; Deployments select by it."""
PD_GROUP: Final = "modelinfer.volcano.sh/group-name"
"""On Pods that prefill or decode: those with the same value work together."""
ROLE: Final = "modelinfer.volcano.sh/role"
ENTRY: Final = "modelinfer.volcano.sh/entry"
"""On Pods that take requests; the other Pods of a worker do not have it."""

ADAPTERS: Final = f"{marks.DOMAIN}adapters"
"""Annotation of Pods whose engines load adapters at their start: digests of the sources by name, in JSON."""

DECODES: Final = f"{marks.DOMAIN}decodes"
"""On Pods that can generate a response. Those of role server can, too: they get requests until a backend
whose type became disaggregated has new Pods."""

LONGEST_LABEL = 63
LONGEST_NAME = 253
LONGEST_DEPLOYMENT = 242
"""Its ReplicaSets have a hyphen and a hash of ten characters more."""
LONGEST_LEADER_WORKER_SET = 45
"""Its Pods and revisions have an index and a hash more, and are named in labels."""
_HASH_CHARACTERS = 8
_NOT_OF_DNS_LABELS = re.compile(r"[^a-z0-9-]")


def shortened(name: str, longest: int) -> str:
    """The name with at most `longest` characters, still unique."""
    if len(name) <= longest:
        return name
    return f"{name[: longest - _HASH_CHARACTERS - 1].rstrip('-.')}-{digest(name)}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]


def dns_label(name: str, longest: int = LONGEST_LABEL) -> str:
    """The name as a DNS label that begins with a letter: without dots, not longer than `longest`."""
    label = _NOT_OF_DNS_LABELS.sub("-", name)
    if not label[:1].isalpha():
        label = f"m-{label}"
    changed = label != name
    return shortened(f"{label}-{digest(name)}" if changed else label, longest)


def runtime_secret(model: api.Model) -> str:
    """The Secret with the token that sidecars of the Model take orders with."""
    return shortened(f"{model.metadata.name}-runtime", LONGEST_NAME)


def of_backend(model: api.Model, backend: str) -> str:
    return shortened(f"{model.metadata.name}-{backend}", LONGEST_NAME)


def served(model: api.Model) -> str:
    """The name by which every engine of the Model serves it, whatever its config says, as long as the Model
    exists: requests keep their way while Pods of two revisions run."""
    return model.metadata.name


def stand_in_route(model: api.Model) -> str:
    """The ModelRoute that has the Model's public name while the usual one still has the former."""
    return shortened(f"{model.metadata.name}-as-{digest(public(model))}", LONGEST_NAME)


def public(model: api.Model) -> str:
    """The name that requests call the Model by."""
    return model.spec.name or model.metadata.name


def labels(model: api.Model, backend: str = "") -> dict[str, str]:
    """Labels of every object of the Model, or of one of its backends."""
    found = {
        MODEL_NAME: shortened(model.metadata.name, LONGEST_LABEL),
        MODEL_UID: model.metadata.uid,
        MANAGED_BY: GROUP,
    }
    return {**found, BACKEND_NAME: shortened(backend, LONGEST_LABEL)} if backend else found
