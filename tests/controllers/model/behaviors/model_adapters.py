"""Adapters and rules of routes, as in the sections on them of the specification."""

from __future__ import annotations

from typing import Any

from world_of_models import ADAPTERS_ALLOWED, Behavior, World

ALLOWED = [ADAPTERS_ALLOWED]


def adapters(*names: str, source: str = "hf://org/adapter") -> list[dict[str, str]]:
    return [{"name": name, "artifactURL": source} for name in names]


async def backends_share_requests_by_weight(world: World) -> None:
    """Two backends with weights 75 and 25, of two engines."""
    first = world.backend("one", routeWeight=75)
    await world.put(first, world.backend("two", type="SGLang", routeWeight=25))
    await world.settled()
    pods = await world.pods_asked(world.name, 120)
    shares = [sum(pod.startswith(f"{world.name}-{each}-") for pod in pods) for each in ("one", "two")]
    assert sum(shares) == 120
    assert 60 < shares[0] < 115
    # Weight 0 takes no requests while others can.
    await world.put(first, world.backend("two", type="SGLang", routeWeight=0))
    await world.settled()

    async def has_none() -> bool:
        pods = await world.pods_asked(world.name, 20)
        return all(pod.startswith(f"{world.name}-one-") for pod in pods)

    await world.until(has_none)


async def an_adapter_goes_to_the_backend_that_has_it(world: World) -> None:
    """Case M3: a rule for the adapter with only that backend; the rule of the Model has both."""
    z = f"{world.name}-z"
    await world.put(world.backend("one"), world.backend("two", loraAdapters=adapters(z)))
    await world.settled()
    spec = (await world.get("modelroutes"))["spec"]
    assert spec["modelName"] == world.name
    assert spec["loraAdapters"] == [z]
    base, extra = spec["rules"]
    assert base["modelMatch"]["body"] == {"model": world.name}
    assert targets(base) == {f"{world.name}-one", f"{world.name}-two"}
    assert extra["modelMatch"]["body"] == {"model": z}
    assert targets(extra) == {f"{world.name}-two"}
    pods = await world.pods_asked(z, 12)
    assert all(pod.startswith(f"{world.name}-two-") for pod in pods)
    both = {pod.rsplit("-", 2)[0] for pod in await world.pods_asked(world.name, 40)}
    assert both == {f"{world.name}-one", f"{world.name}-two"}
    # Loaded at the start by flags, and reported all the same.
    assert await world.adapters() == {"one": {}, "two": {z: ("Loaded", 1)}}
    await world.says("AdaptersLoaded", "True")


async def more_adapters_than_a_route_can_hold(world: World) -> None:
    """Ten to a route; every one is answered."""
    named = [f"{world.name}-{number:02}" for number in range(23)]
    await world.put(world.backend(env=ALLOWED, loraAdapters=adapters(*named)))
    await world.says("AdaptersLoaded", "True")
    routes = {each["metadata"]["name"]: each["spec"] for each in await world.list("modelroutes")}
    assert {*routes} == {world.name, f"{world.name}-adapters-1", f"{world.name}-adapters-2"}
    placed = [adapter for spec in routes.values() for adapter in spec["loraAdapters"]]
    assert sorted(placed) == named
    assert max(len(spec["loraAdapters"]) for spec in routes.values()) == 10
    for adapter in named:
        await world.ask(adapter)
    await world.put(world.backend(env=ALLOWED, loraAdapters=adapters(named[0], named[22])))
    await world.gone("modelroutes", f"{world.name}-adapters-1")
    await world.settled()
    await world.ask(named[0])
    await world.ask(named[22])


async def adapters_come_and_go_without_a_rollout(world: World) -> None:
    """The engine loads and unloads them while it runs, also in Pods that come later. A source that does not
    exist is an error of that adapter only."""
    one, two, gone = (f"{world.name}-{each}" for each in ("one", "two", "gone"))
    await world.put(world.backend(env=ALLOWED, loraAdapters=adapters(one)))
    await world.says("AdaptersLoaded", "True")
    assert await world.adapters() == {"b": {one: ("Loaded", 1)}}
    pods = await world.names("pods")
    await world.put(world.backend(env=ALLOWED, loraAdapters=adapters(one, two)))
    await loaded(world, {one: ("Loaded", 1), two: ("Loaded", 1)})
    assert await world.names("pods") == pods
    await world.ask(one)
    await world.ask(two)
    await world.put(world.backend(env=ALLOWED, loraAdapters=adapters(two), replicas=2))
    await loaded(world, {two: ("Loaded", 2)})
    assert pods < await world.names("pods")
    wrong = adapters(two) + adapters(gone, source="hf://org/nowhere")
    await world.put(world.backend(env=ALLOWED, loraAdapters=wrong, replicas=2))
    condition = await world.says("AdaptersLoaded", "False", "AdapterFailed")
    assert f"backend b, adapter {gone}: Pod {world.name}-b-" in condition["message"]
    assert "org/nowhere" in condition["message"]
    await world.event("AdapterFailed")
    await world.says("Active", "True")
    assert (await world.adapters())["b"][two] == ("Loaded", 2)
    await world.put(world.backend(env=ALLOWED, loraAdapters=adapters(two), replicas=2))
    await world.says("AdaptersLoaded", "True")


async def adapters_of_a_claim_are_used_in_place(world: World) -> None:
    """Weights and adapters of claims, at run time and at the start."""
    one, two = (f"{world.name}-{each}" for each in ("one", "two"))
    await world.claim("weights")
    await world.claim("adapters")
    own = adapters(one, source="pvc://weights") + adapters(two, source="pvc://adapters")
    fields = {"modelURI": "pvc://weights", "loraAdapters": own}
    before = len(world.hub.requests)
    await world.put(world.backend("start", **fields), world.backend("run", **fields, env=ALLOWED))
    await world.says("AdaptersLoaded", "True")
    everywhere = {one: ("Loaded", 1), two: ("Loaded", 1)}
    assert await world.adapters() == {"start": everywhere, "run": everywhere}
    for adapter in (one, two):
        asked = {pod.rsplit("-", 2)[0] for pod in await world.pods_asked(adapter, 30)}
        assert asked == {f"{world.name}-start", f"{world.name}-run"}
    assert len(world.hub.requests) == before


async def an_adapter_that_cannot_be_downloaded_is_named(world: World) -> None:
    """Also one that engines get at their start: the Pods of before serve meanwhile."""
    one, gone = (f"{world.name}-{each}" for each in ("one", "gone"))
    await world.put(world.backend(loraAdapters=adapters(one)))
    await world.settled()
    assert await world.adapters() == {"b": {one: ("Loaded", 1)}}
    wrong = adapters(one) + adapters(gone, source="hf://org/nowhere")
    await world.put(world.backend(loraAdapters=wrong))
    condition = await world.says("AdaptersLoaded", "False", "AdapterFailed")
    assert f"backend b, adapter {gone}: Pod {world.name}-b-" in condition["message"]
    assert "org/nowhere" in condition["message"]
    assert (await world.adapters())["b"][one] == ("Loaded", 1)
    await world.ask(one)
    await world.put(world.backend(loraAdapters=adapters(one)))
    await world.settled()
    await world.says("AdaptersLoaded", "True")


async def loaded(world: World, wanted: dict[str, Any]) -> None:
    async def is_it() -> bool:
        return (await world.adapters())["b"] == wanted

    await world.until(is_it)


def targets(rule: dict[str, Any]) -> set[str]:
    return {each["modelServerName"] for each in rule["targetModels"]}


BEHAVIORS: tuple[Behavior, ...] = (
    backends_share_requests_by_weight,
    an_adapter_goes_to_the_backend_that_has_it,
    more_adapters_than_a_route_can_hold,
    adapters_come_and_go_without_a_rollout,
    adapters_of_a_claim_are_used_in_place,
    an_adapter_that_cannot_be_downloaded_is_named,
)
