"""The controller at work on an API server, with a port that opens and closes."""

import asyncio
import base64
import contextlib

import pytest

from headgate import api, cluster
from headgate.api import gie_v1
from headgate.api.gateways import Gateway, GatewayClass
from headgate.api.http_routes import HttpRoute
from headgate.controllers.gateway_api import GatewayApiController, GatewayApiSettings, parsed


@pytest.fixture
async def controller(client):
    """With the address of this machine for Gateways."""
    settings = GatewayApiSettings(addresses=parsed(["127.0.0.1"]))
    made, ready = GatewayApiController(client, settings=settings), asyncio.Event()
    task = asyncio.create_task(made.run(ready.set))
    await ready.wait()
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def of_parents(status):
    """The conditions of all parents."""
    return [condition for parent in status.parents for condition in parent.conditions]


@pytest.fixture
def until(client):
    """Waits until the conditions of an object are as given."""

    async def wait(kind, name: str, wanted, read=lambda status: status.conditions) -> None:
        said = None
        try:
            async with asyncio.timeout(60):
                while said != wanted:
                    await asyncio.sleep(0.05)
                    namespace = "default" if kind.resource.namespaced else None
                    status = (await client.get(kind, name, namespace)).status
                    said = None
                    if status is not None:
                        said = {each.type: (each.status, each.reason) for each in read(status)}
        except TimeoutError:
            raise AssertionError(f"{name} says {said}, not {wanted}") from None

    return wait


async def test_a_gateway_is_programmed_while_its_port_is_open(
    client, controller, until, kit, unused_tcp_port
):
    """Its class is accepted first; its route is attached; what is written once is not written again."""
    accepted = {"Accepted": ("True", "Accepted")}
    await client.create(kit.gateway_class())
    await until(GatewayClass, "headgate", accepted)
    every = {"namespaces": {"from": "All"}}
    listener = {"name": "http", "port": unused_tcp_port, "protocol": "HTTP", "allowedRoutes": every}
    await client.create(kit.gateway("front", listener))
    await until(Gateway, "front", {**accepted, "Programmed": ("False", "Pending")})
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", unused_tcp_port)
    async with server:
        await until(Gateway, "front", {**accepted, "Programmed": ("True", "Programmed")})
        await client.create(kit.pool())
        await client.create(kit.route("route", kit.to_pool("pool")))
        resolved = {**accepted, "ResolvedRefs": ("True", "ResolvedRefs")}
        await until(HttpRoute, "route", resolved, of_parents)
        await until(gie_v1.InferencePool, "pool", resolved, of_parents)
        gateway = await client.get(Gateway, "front", "default")
        assert gateway.status.listeners[0].attached_routes == 1
        written = controller.statistics().written
        await client.delete(HttpRoute, "route", "default")
        await until(gie_v1.InferencePool, "pool", {}, of_parents)
    assert controller.statistics().written > written


async def test_without_a_name_nothing_is_read_or_written(client, kit):
    """For accounts that may not read GatewayClasses."""
    await client.create(kit.gateway_class())
    made, ready = (
        GatewayApiController(client, settings=GatewayApiSettings(controller_name="")),
        asyncio.Event(),
    )
    await made.run(ready.set)
    assert ready.is_set()
    assert made.is_ready
    assert not made.has_classes()


async def test_a_pool_belongs_to_gateways_once_there_is_a_class(client, controller, kit):
    """Other controllers ask for that."""
    changes = []
    controller.on_classes(lambda: changes.append(controller.has_classes()))
    await client.create(kit.gateway_class())
    async with asyncio.timeout(60):
        while not controller.has_classes():
            await asyncio.sleep(0.02)
        await client.delete(GatewayClass, "headgate")
        while controller.has_classes():
            await asyncio.sleep(0.02)
    assert changes == [True, False]


async def test_an_object_that_replaces_one_of_its_name_gets_a_status(client, controller, until, kit):
    """However soon it comes: nothing else about it has changed."""
    await client.create(kit.gateway_class())
    await client.create(kit.gateway())
    resolved = {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("False", "BackendNotFound")}
    for _ in range(3):
        await client.create(kit.route("route", {"name": "nowhere", "port": 80}))
        await until(HttpRoute, "route", resolved, of_parents)
        await client.delete(HttpRoute, "route", "default")


async def test_a_certificate_is_not_reported_missing_before_it_is_read(client, kit, until):
    """Every status of the listener that is ever written has it; a Secret that comes later is found, too."""
    pem = "-----BEGIN {0}-----\nMAo=\n-----END {0}-----\n"
    files = {"tls.crt": pem.format("CERTIFICATE"), "tls.key": pem.format("PRIVATE KEY")}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
    tls = {"name": "tls", "port": 8443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "first"}]}}
    await client.create(kit.gateway_class())
    await client.create(kit.gateway("front", tls))
    await client.create(api.Secret(metadata=api.ObjectMeta(name="first", namespace="default"), data=data))
    said: list[str] = []
    informer = cluster.Informer(client, Gateway)
    informer.subscribe(lambda change: said.extend(_resolved(change.new)))
    settings = GatewayApiSettings(addresses=parsed(["127.0.0.1"]))
    made = GatewayApiController(client, settings=settings)
    tasks = [asyncio.create_task(informer.run()), asyncio.create_task(made.run(lambda: None))]
    pending = {"Accepted": ("True", "Accepted"), "Programmed": ("False", "Pending")}
    await until(Gateway, "front", pending)
    async with asyncio.timeout(60):
        while not said:
            await asyncio.sleep(0.02)
    assert {*said} == {"True"}
    again = kit.gateway("later", {**tls, "port": 8444, "tls": {"certificateRefs": [{"name": "second"}]}})
    await client.create(again)
    await until(Gateway, "later", {**pending, "Programmed": ("False", "Invalid")})
    await client.create(api.Secret(metadata=api.ObjectMeta(name="second", namespace="default"), data=data))
    await until(Gateway, "later", pending)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _resolved(gateway: Gateway | None) -> list[str]:
    status = gateway.status if gateway is not None else None
    conditions = [each for one in (status.listeners if status else ()) for each in one.conditions]
    return [each.status for each in conditions if each.type == "ResolvedRefs"]
