"""Which engine is meant: by the name in a ModelServer, or by a label of the Pod that runs it."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.engines.engine import Engine
from headgate.engines.openai import OPENAI
from headgate.engines.sglang import SGLANG
from headgate.engines.trtllm import TRTLLM
from headgate.engines.vllm import VLLM

POD_LABELS = ("llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type")
"""By which a Pod says what it runs; the first that it has counts."""

_BY_NAME = {
    name.lower(): engine
    for engine in (VLLM, SGLANG, TRTLLM, OPENAI)
    for name in (engine.name, *engine.aliases)
}


def named(name: str) -> Engine:
    """The engine of that name, in any case; one that is not known is any server with OpenAI's API."""
    return _BY_NAME.get(name.lower(), OPENAI)


def of_pod(labels: Mapping[str, str], default: str) -> Engine:
    """What a Pod runs: by its own label, else by what its pool says, which is `default`."""
    for label in POD_LABELS:
        name = labels.get(label)
        if name:
            return named(name)
    return named(default)
