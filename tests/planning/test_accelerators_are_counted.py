"""Limits by type, from Nodes and from a ConfigMap."""

from typing import Any

import msgspec
import pytest

from headgate.api.core import Node
from headgate.planning import limits
from headgate.planning.system import Accelerator

ACCELERATORS = {
    "A100": Accelerator(name="A100", type="NVIDIA-A100-PCIE-80GB", cost=40),
    "G2": Accelerator(name="G2", type="Intel-Gaudi-2-96GB", cost=23),
}


def node(allocatable: dict[str, Any], *, ready: str = "True", cordoned: bool = False, **labels: str) -> Node:
    return msgspec.convert(
        {
            "metadata": {
                "name": "n",
                "labels": {name.replace("__", "/"): each for name, each in labels.items()},
            },
            "spec": {"unschedulable": cordoned},
            "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": ready}]},
        },
        Node,
    )


def labelled(allocatable: dict[str, Any], product: str = "NVIDIA-L40S", **more: Any) -> Node:
    return node(allocatable, **{"nvidia.com__gpu.product": product}, **more)


def test_devices_of_nodes_are_added_up_by_product() -> None:
    """Of those that are ready and take Pods."""
    nodes = [
        labelled({"nvidia.com/gpu": "8", "cpu": "64"}),
        labelled({"nvidia.com/gpu": 4}),
        labelled({"nvidia.com/gpu": "2"}, "NVIDIA-H100-80GB-HBM3"),
        labelled({"nvidia.com/gpu": "8"}, ready="False"),
        labelled({"nvidia.com/gpu": "8"}, cordoned=True),
        labelled({"cpu": "64"}),
        node({"nvidia.com/gpu": "8"}),
    ]
    assert limits.of_nodes(nodes, ACCELERATORS) == {"NVIDIA-L40S": 12, "NVIDIA-H100-80GB-HBM3": 2}


def test_a_label_may_name_the_accelerator() -> None:
    """Where the product is spelled in another way, or not at all."""
    label = {"inference.optimization__acceleratorName": "A100"}
    other = {"inference.optimization__acceleratorName": "G2"}
    nodes = [
        labelled({"nvidia.com/gpu": "8"}, "NVIDIA-A100-80GB-PCIe", **label),
        node({"habana.ai/gaudi": "8"}, **other),
    ]
    assert limits.of_nodes(nodes, ACCELERATORS) == {"NVIDIA-A100-PCIE-80GB": 8, "Intel-Gaudi-2-96GB": 8}


@pytest.mark.parametrize("amount", ["x", "-1", None, True, [], "", "0"])
def test_what_is_no_number_of_devices_counts_as_none(amount) -> None:
    """Nothing of it is an error."""
    assert limits.of_nodes([labelled({"nvidia.com/gpu": amount})], ACCELERATORS) == {}


def test_limits_may_be_in_a_config_map() -> None:
    """By accelerator or device; a broken key limits nothing."""
    data = {"A100": "16", "NVIDIA-A100-PCIE-80GB": "8", "NVIDIA-L40S": " 4", "G2": "many", "H100": "-1"}
    found, problems = limits.of_config_map("system/accelerator-limits", data, ACCELERATORS)
    assert found == {"NVIDIA-A100-PCIE-80GB": 8, "NVIDIA-L40S": 4}
    assert [each.message.removeprefix("ConfigMap system/accelerator-limits, key ") for each in problems] == [
        'G2: "many" is not a number of accelerators; write it as in 8',
        'H100: "-1" is not a number of accelerators; write it as in 8',
        'NVIDIA-A100-PCIE-80GB: "8" is another limit for NVIDIA-A100-PCIE-80GB; the smaller one is used; '
        "remove one",
    ]
