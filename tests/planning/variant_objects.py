"""VariantAutoscalings, configurations and loads in few words."""

from typing import Any

import msgspec

from headgate.api.llmd import VariantAutoscaling
from headgate.planning import config_maps
from headgate.planning.config_maps import Configuration
from headgate.planning.variants import ACCELERATOR_LABEL, Variant

COSTS = {
    "A100": '{"device": "NVIDIA-A100", "cost": "40.00"}',
    "L40S": '{"device": "NVIDIA-L40S", "cost": "32.00"}',
}
CLASSES = {
    "premium.yaml": "{name: Premium, priority: 1, data: [{model: m, slo-tpot: 24, slo-ttft: 500}]}",
    "free.yaml": "{name: Free, priority: 10, data: [{model: n, slo-tpot: 200, slo-ttft: 2000}]}",
}


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """As a collector reports it."""

    arrivals_per_s: float
    prompt_tokens: float = 100
    output_tokens: float = 128
    cached_share: float = 0.0
    prompt_spread: float = 0.0
    waiting: int = 0


def configured(**data: Any) -> Configuration:
    """The four ConfigMaps, by default with two accelerators and two classes."""
    given = {"costs": COSTS, "classes": CLASSES, "main": None, "scale_to_zero": None} | data
    return config_maps.read(**given)


def scaled(
    name: str = "chat",
    *,
    namespace: str = "llm",
    model: str = "m",
    accelerator: str = "A100",
    count: int = 1,
    label: str | None = None,
    reference: tuple[str, str] = (config_maps.CLASSES, "premium.yaml"),
    decode: dict[str, str] | None = None,
    prefill: dict[str, str] | None = None,
    batch: int = 4,
    variant_id: str = "",
) -> VariantAutoscaling:
    """By default with the engine E of the worked examples: one takes 49.6 requests a minute for the mean."""
    labels = {} if label is None else {ACCELERATOR_LABEL: label}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "modelID": model,
                "variantID": variant_id or f"{model}-{accelerator}-{count}",
                "accelerator": accelerator,
                "acceleratorCount": count,
                "sloClassRef": {"name": reference[0], "key": reference[1]},
                "variantProfile": {
                    "perfParms": {
                        "decodeParms": decode or {"alpha": "20.58", "beta": "0.41"},
                        "prefillParms": prefill or {"gamma": "20.58", "delta": "0.041"},
                    },
                    "maxBatchSize": batch,
                },
            },
        },
        VariantAutoscaling,
    )


def variant(name: str = "chat", **fields: Any) -> Variant:
    return Variant.of(scaled(name, **fields))
