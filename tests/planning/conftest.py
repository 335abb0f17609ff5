"""Replicas in few words. The simulation that confirms plans is that of the benchmark."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.planning.replica import Profile, Replica

sys.path.insert(0, str(Path(__file__).parent))  # for variant_objects
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))


def _replica(
    alpha: float, beta: float, gamma: float, delta: float, *, batch: int, prompt: float, response: float
) -> Replica:
    return Replica(
        profile=Profile(alpha_ms=alpha, beta_ms=beta, gamma_ms=gamma, delta_ms=delta),
        input_tokens=prompt,
        output_tokens=response,
        max_batch=batch,
        max_queue=10 * batch,
    )


@pytest.fixture(scope="session")
def replica() -> Callable[..., Replica]:
    """A replica with a queue of ten times its batch size."""
    return _replica
