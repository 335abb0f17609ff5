"""Autoscaling on the real control plane: its scale subresources, its controllers and LWS's.

The behaviors are those that the embedded API server is tested for.
"""

from __future__ import annotations

import behaviors_of_bindings
import behaviors_of_metrics
import behaviors_of_scaled_models
import behaviors_of_scaling
import pytest
from reference_cases import CASES, check
from registered import Behavior
from world_of_scaling import World

BEHAVIORS = (
    *behaviors_of_scaling.BEHAVIORS,
    *behaviors_of_metrics.BEHAVIORS,
    *behaviors_of_scaled_models.BEHAVIORS,
    *behaviors_of_bindings.BEHAVIORS,
)

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("behavior", BEHAVIORS, ids=lambda each: each.__name__)
async def test_it(world: World, behavior: Behavior) -> None:
    """Each behavior, as its docstring says."""
    await behavior(world)


@pytest.mark.parametrize("name", CASES)
async def test_a_reference_case(world: World, name: str) -> None:
    """Replicas follow as the reference cases say."""
    await check(world, CASES[name])
