"""The known engines, and the lookup by the name in a ModelServer or by a label of its Pod."""

from __future__ import annotations

from collections.abc import Mapping

from headgate.engines import figures, mindie, openai, sglang, trtllm, vllm
from headgate.engines.engine import Engine
from headgate.engines.launch import Launcher

POD_LABELS = ("llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type")
"""The labels by which a Pod names its engine; the first one present counts."""

KNOWN = (
    vllm.ENGINE,
    sglang.ENGINE,
    trtllm.ENGINE,
    mindie.ENGINE,
    openai.ENGINE,
)

_BY_NAME = {name.lower(): engine for engine in KNOWN for name in (engine.name, *engine.aliases)}

_LAUNCHERS: Mapping[str, Launcher] = {
    "vLLM": vllm.LAUNCHER,
    "vLLMDisaggregated": vllm.LAUNCHER,
    "SGLang": sglang.LAUNCHER,
    "MindIE": mindie.LAUNCHER,
    "MindIEDisaggregated": mindie.LAUNCHER,
}


def named(name: str) -> Engine:
    """The engine of that name, in any case; an unknown name is any server with OpenAI's API."""
    return _BY_NAME.get(name.lower(), openai.ENGINE)


def of_pod(labels: Mapping[str, str], default: str) -> Engine:
    """The engine of a Pod: its own label takes precedence over `default`, the engine of its pool."""
    for label in POD_LABELS:
        name = labels.get(label)
        if name:
            return named(name)
    return named(default)


def of_page(text: bytes) -> Engine | None:
    """The engine whose metrics page this is; None if it is no page of a known engine. Raises
    PageTooLargeError."""
    return next((each for each in KNOWN if each.metrics and figures.read(text, each.metrics).says_load), None)


def launcher(backend_type: str) -> Launcher:
    """How the engine of a backend of this type is launched. Raises KeyError for a type without an engine."""
    return _LAUNCHERS[backend_type]
