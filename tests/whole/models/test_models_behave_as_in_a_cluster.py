"""Models on the embedded API server, with its node, a controller and a gateway. The same behaviors are tested
in a cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
from behaviors_of_models import BEHAVIORS
from world_of_models import Site, World, running_site, world_of

pytestmark = [pytest.mark.whole, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def own_site(
    tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Callable[[], int]
) -> Iterator[Site]:
    """What all behaviors share."""
    directory = tmp_path_factory.mktemp("cases")
    state = directory / "state"
    server = ("apiserver", "--state", state, "--port", unused_tcp_port_factory())
    node = ("--state", state, "--kubelet-port", 0)
    with running_site(directory, state / "kubeconfig", unused_tcp_port_factory, node, server) as site:
        yield site


@pytest.fixture
async def world(own_site: Site) -> AsyncIterator[World]:
    """A namespace for one behavior, which leaves nothing."""
    async with world_of(own_site) as world:
        yield world


@pytest.mark.parametrize("behavior", BEHAVIORS, ids=lambda each: each.__name__)
async def test_it(world: World, behavior: Callable[[World], Awaitable[None]]) -> None:
    """Each behavior, as its docstring says."""
    await behavior(world)
