"""Pools that select each other's Pods: each would count on an endpoint that the other fills as well."""

from __future__ import annotations

from headgate.api.admission import entries
from headgate.api.admission.findings import Findings
from headgate.api.admission.others import MANY, Filed, View
from headgate.api.admission.place import Place
from headgate.api.meta import ObjectKey

__all__ = ["warn"]

_LABELS_OF = {
    ("networking.volcano.sh", "ModelServer"): "spec.workloadSelector.matchLabels",
    ("inference.networking.x-k8s.io", "InferencePool"): "spec.selector",
    ("inference.networking.k8s.io", "InferencePool"): "spec.selector.matchLabels",
}


def warn(group: str, kind: str, pool: Place, labels: Place, others: View, found: Findings) -> None:
    """Warns of a pool of the same kind that certainly shares Pods: one selector contains the other.

    Selectors of which neither contains the other may share Pods too, but nobody knows without the Pods.
    """
    own = labels.texts.items()
    if not own:
        return
    key = ObjectKey(pool.at("metadata.namespace").text or "", pool.at("metadata.name").text or "")
    for other in _candidates(kind, key, labels.texts, others):
        if (other.kind, other.key) == (kind, key):  # of either group: they are two versions of one pool
            continue
        obj = others.get(other.group, other.kind, other.key)
        theirs = Place(obj).at(_LABELS_OF[other.group, other.kind]).texts.items() if obj else None
        if theirs and own == theirs:
            found.warn(labels, f"{other} selects the same Pods")
        elif theirs and theirs < own:
            found.warn(labels, f"{other} selects all of these Pods as well")
        elif theirs and own < theirs:
            found.warn(labels, f"all Pods of {other} are selected as well")


def _candidates(kind: str, key: ObjectKey, labels: dict[str, str], others: View) -> list[Filed]:
    """Those that share a label, the few oldest; a selector inside the other does so."""
    under = [each for entry in entries.selection(kind, key.namespace, labels) for each in others.filed(entry)]
    return list(dict.fromkeys(under))[:MANY]
