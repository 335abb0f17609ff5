"""Models by the real control plane, with its scheduler, garbage collector and LWS's own controller, and
`headgate node` as its node.

The behaviors are those that the embedded API server is tested for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from behaviors_of_models import BEHAVIORS
from world_of_models import World

pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("behavior", BEHAVIORS, ids=lambda each: each.__name__)
async def test_it(world: World, behavior: Callable[[World], Awaitable[None]]) -> None:
    """Each behavior, as its docstring says."""
    await behavior(world)


async def test_a_model_that_no_machine_suits(world: World) -> None:
    """The condition has what the scheduler says."""
    resources = {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}}
    await world.put(world.backend(workers=[{"type": "server", "resources": resources}]))
    condition = await world.says("Active", "False", "Unschedulable")
    assert "nvidia.com/gpu" in condition["message"]
