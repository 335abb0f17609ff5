"""Kinds that are stored and checked, and that nothing acts on yet: what is to be said of their objects."""

from __future__ import annotations

from collections.abc import Mapping

UNATTENDED: Mapping[tuple[str, str], str] = {
    ("llmd.ai", "VariantAutoscaling"): "nothing plans replicas by it yet: set those of the workload yourself",
    ("registry.volcano.sh", "AutoscalingPolicy"): "nothing scales by it yet: set replicas yourself",
    ("registry.volcano.sh", "AutoscalingPolicyBinding"): "nothing scales by it yet: set replicas yourself",
    ("registry.volcano.sh", "Model"): (
        "nothing runs it yet: create a Deployment, a ModelServer and a ModelRoute yourself"
    ),
}
"""By group and kind, for the status of each object and for the warning when it is written."""
