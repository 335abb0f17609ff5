"""A model that could not be started, and then went to zero, does not refuse the next request for it."""

from __future__ import annotations

from world_of_scaling import World, controlling, eventually

from headgate import api
from headgate.api import marks


async def test_gateways_unlearn_it_with_the_last_replica(world: World) -> None:
    """As soon as there is to be none: its Pod may take a while to go, and nothing is decided after that until
    a request comes. What gateways know before is one line, cut where dots say so."""
    await world.workload(replicas=1, ready=0)
    await world.server(idle_s=None, requests_running=1)
    await world.policy(**{"headgate:requests_in_flight": 4})
    await world.binding(least=0, annotations={marks.ZERO_GRACE_PERIOD: "1s"})
    async with controlling(world.client, world.port):

        async def is_told() -> bool:
            for pod in await world.client.list(api.Pod, world.namespace, label_selector="app=web"):
                waiting = {"reason": "ImagePullBackOff", "message": f"no such image{' ' * 9}{'x' * 400}"}
                container = {"name": "engine", "image": "engine:1", "imageID": "", "ready": False}
                container |= {"restartCount": 0, "state": {"waiting": waiting}}
                status = {"containerStatuses": [container]}
                await world.client.patch_status(api.Pod, pod.metadata.name, world.namespace, status)
            return marks.START_FAILED in await world.notes()

        await eventually(is_told)
        noted = (await world.notes())[marks.START_FAILED]
        assert "no such image xxx" in noted
        assert noted.endswith("xxx...")
        world.makes_pods = False  # nobody deletes the Pod
        world.signals["web"] = {"idle_s": 5.0}

        async def is_over() -> bool:
            return await world.replicas() == 0 and marks.START_FAILED not in await world.notes()

        await eventually(is_over)
        assert marks.SCALE_FROM_ZERO in await world.notes()
