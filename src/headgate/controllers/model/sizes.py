"""How large the objects of a Model would be. A short Model can ask for very many containers, so this is
counted before any is made."""

from __future__ import annotations

from typing import Final

from headgate import api
from headgate.api.kthena_model_rules import MOST_DOWNLOADS
from headgate.api.kthena_registry import ModelBackend
from headgate.controllers.model.scope import Problem
from headgate.controllers.model.volumes import CLAIM

MOST_ENTRIES: Final = 250_000
"""Variables and mounts of all containers of a Model together."""


def excess(model: api.Model) -> Problem | None:
    """Why the objects of the Model are too many to be made; None if they are not."""
    backends = model.spec.backends
    downloads = sum(_downloads(backend) for backend in backends)
    if downloads > MOST_DOWNLOADS:
        return Problem(
            "spec.backends",
            f"workers times their adapters (and the weights) add up to {downloads} downloads; at most "
            f"{MOST_DOWNLOADS} are allowed: have fewer workers or adapters, or divide the Model",
        )
    entries = sum(_containers(backend) * _entries(backend) for backend in backends)
    if entries > MOST_ENTRIES:
        return Problem(
            "spec.backends",
            f"the containers would have {entries} variables and mounts; at most {MOST_ENTRIES} are allowed: "
            "have fewer workers, adapters or variables",
        )
    return None


def _downloads(backend: ModelBackend) -> int:
    """Each worker downloads the weights and each adapter."""
    return len(backend.workers) * (1 + len(backend.lora_adapters))


def _containers(backend: ModelBackend) -> int:
    return _downloads(backend) + 2 * len(backend.workers)


def _entries(backend: ModelBackend) -> int:
    """What each container has at most: its variables, and a mount for each claim."""
    sources = (backend.model_uri, *(adapter.artifact_url for adapter in backend.lora_adapters))
    claims = len({uri.removeprefix(CLAIM).partition("/")[0] for uri in sources if uri.startswith(CLAIM)})
    return len(backend.env) + len(backend.env_from) + claims
