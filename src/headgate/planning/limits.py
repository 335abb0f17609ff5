"""How many accelerators of each type there are: by the Nodes of a cluster, or by a ConfigMap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

from headgate.api.core import Node
from headgate.kubeschema import quantity
from headgate.planning.config_maps import LIMITS
from headgate.planning.config_values import ConfigProblem, Key
from headgate.planning.system import Accelerator
from headgate.planning.variants import ACCELERATOR_LABEL

__all__ = ["LIMITS", "of_config_map", "of_nodes"]

_MOST: Final = 10_000_000
_RESOURCES: Final = {
    "nvidia.com/gpu": ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator"),
    "amd.com/gpu": ("amd.com/gpu.product", "amd.com/gpu.product-name"),
    "intel.com/gpu": ("intel.com/gpu.product",),
    "habana.ai/gaudi": (),
    "google.com/tpu": ("cloud.google.com/gke-tpu-accelerator",),
}
"""By resource: labels of the Node that name its product."""


def of_nodes(nodes: Iterable[Node], accelerators: Mapping[str, Accelerator]) -> dict[str, int]:
    """Accelerators of all Nodes that are ready and take Pods, by type.

    The type is the product by the Node's labels; where the label `inference.optimization/acceleratorName`
    names one of `accelerators`, it is the device of that one.
    """
    found: dict[str, int] = {}
    for node in nodes:
        if node.spec.unschedulable or not _is_ready(node):
            continue
        for resource, labels in _RESOURCES.items():
            kind = _kind(node, labels, accelerators)
            if kind and (count := _count(node.status.allocatable.get(resource))):
                found[kind] = found.get(kind, 0) + count
    return found


def of_config_map(
    config_map: str,
    data: Mapping[str, str],
    accelerators: Mapping[str, Accelerator],
) -> tuple[dict[str, int], list[ConfigProblem]]:
    """Limits by type, and keys that are none. `config_map` is its namespace and name, for messages."""
    found: dict[str, int] = {}
    problems: list[ConfigProblem] = []
    for name, text in sorted(data.items()):
        key = Key(config_map, name, problems)
        kind = accelerators[name].kind if name in accelerators else name
        if not (text.strip().isascii() and text.strip().isdigit() and len(text) < 10):
            key.report("is not a number of accelerators", "write it as in 8", value=text)
        elif kind in found:
            told = f"is another limit for {kind}; the smaller one is used"
            key.report(told, "remove one", value=text, is_warning=True)
            found[kind] = min(found[kind], int(text))
        else:
            found[kind] = min(int(text), _MOST)
    return found, problems


def _is_ready(node: Node) -> bool:
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def _kind(node: Node, labels: Iterable[str], accelerators: Mapping[str, Accelerator]) -> str:
    own = node.metadata.labels.get(ACCELERATOR_LABEL, "")
    if own in accelerators:
        return accelerators[own].kind
    return next((node.metadata.labels[each] for each in labels if node.metadata.labels.get(each)), own)


def _count(amount: object) -> int:
    """Of whole devices; 0 for what is no quantity."""
    if not isinstance(amount, str | int) or isinstance(amount, bool):
        return 0
    try:
        return max(0, min(math.floor(float(quantity.parse(amount))), _MOST))
    except quantity.QuantityError:
        return 0
