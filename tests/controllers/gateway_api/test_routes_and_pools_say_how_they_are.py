"""Statuses of HTTPRoutes, and the parents of InferencePools, for each Gateway (C1 to C9)."""

import msgspec
import pytest

from headgate.api import gie_v1, http_routes
from headgate.controllers.gateway_api import forming

OK = {"Accepted": ("True", "Accepted"), "ResolvedRefs": ("True", "ResolvedRefs")}


def parents(kit, status) -> dict[str, dict]:
    return {each.parent_ref.name: kit.said(each.conditions) for each in status.parents}


def test_a_route_to_a_service_is_accepted(kit):
    """For each of its parents that is a Gateway of ours."""
    route = kit.route("route", {"name": "web", "port": 8080}, to=("front", "elsewhere"))
    status = kit.status_of(route, kit.gateway(), kit.gateway_class(), kit.service("web"))
    assert parents(kit, status) == {"front": OK}
    assert status.parents[0].controller_name == kit.controller


def test_a_route_that_names_no_gateway_of_ours_has_no_status(kit):
    """Whoever else implements its Gateway writes it."""
    assert kit.status_of(kit.route(to=("elsewhere",)), kit.gateway(), kit.gateway_class()) is None


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ({"name": "nowhere", "port": 80}, "BackendNotFound"),
        ({"name": "web", "port": 1}, "BackendNotFound"),
        ({"kind": "Pod", "name": "web"}, "InvalidKind"),
        ({"name": "far", "namespace": "other", "port": 8080}, "RefNotPermitted"),
    ],
)
def test_references_that_lead_nowhere_are_reported(kit, backend, reason):
    """The route is accepted all the same."""
    far = kit.service("far", namespace="other")
    status = kit.status_of(
        kit.route("route", backend), kit.gateway(), kit.gateway_class(), kit.service("web"), far
    )
    assert parents(kit, status) == {"front": {**OK, "ResolvedRefs": ("False", reason)}}


def test_c7_a_route_to_a_pool_that_does_not_exist_is_accepted_but_not_resolved(kit):
    """HTTPRouteInvalidInferencePoolRef."""
    status = kit.status_of(kit.route("route", kit.to_pool("gone")), kit.gateway(), kit.gateway_class())
    assert parents(kit, status) == {"front": {**OK, "ResolvedRefs": ("False", "BackendNotFound")}}


@pytest.mark.parametrize("port", [{}, {"port": 8000}, {"port": 1234}])
def test_c1_and_c5_a_pool_is_accepted_by_the_gateways_whose_routes_lead_to_it(kit, port):
    """Whatever port the reference names."""
    pool = kit.pool(picker="epp")
    around = (kit.route("route", kit.to_pool("pool", **port)), kit.gateway(), kit.gateway_class())
    status = kit.status_of(pool, *around, kit.service("epp", 9002))
    assert parents(kit, status) == {"front": OK}
    [parent] = status.parents
    assert (parent.parent_ref.kind, parent.parent_ref.namespace) == ("Gateway", "default")
    assert parents(kit, kit.status_of(around[0], pool, *around[1:])) == {"front": OK}


def test_c2_parents_of_a_pool_come_and_go_with_the_routes(kit):
    """The last one leaves an empty list; a pool that never had a parent of ours is left alone."""
    pool = kit.pool()
    front, back = kit.gateway("front"), kit.gateway("back")
    one, two = kit.route("one", kit.to_pool("pool")), kit.route("two", kit.to_pool("pool"), to=("back",))
    around = (front, back, kit.gateway_class())
    both = kit.status_of(pool, one, two, *around)
    assert parents(kit, both) == {"front": OK, "back": OK}
    pool = msgspec.structs.replace(pool, status=both)
    second = kit.status_of(pool, two, *around)
    assert parents(kit, second) == {"back": OK}
    assert kit.status_of(msgspec.structs.replace(pool, status=second), *around).parents == []
    assert kit.status_of(kit.pool(), *around) is None


def test_c3_a_picker_that_does_not_exist_is_reported(kit):
    """The route is accepted, and the pool's reference is not resolved."""
    around = (kit.route("route", kit.to_pool("pool")), kit.gateway(), kit.gateway_class())
    wrong = {**OK, "ResolvedRefs": ("False", "InvalidExtensionRef")}
    pool = kit.pool(picker="gone")
    assert parents(kit, kit.status_of(pool, *around)) == {"front": wrong}
    assert parents(kit, kit.status_of(around[0], pool, *around[1:])) == {"front": OK}
    external = kit.service("gone", 9002, type="ExternalName")
    assert parents(kit, kit.status_of(pool, *around, external)) == {"front": wrong}
    assert parents(kit, kit.status_of(pool, *around, kit.service("gone", 1))) == {"front": wrong}


def test_c4_a_pool_without_a_picker_is_accepted(kit):
    """Headgate picks endpoints itself."""
    around = (kit.route("route", kit.to_pool("pool")), kit.gateway(), kit.gateway_class())
    assert parents(kit, kit.status_of(kit.pool(), *around)) == {"front": OK}


def test_a_pool_says_that_the_route_to_it_is_not_accepted(kit):
    """A Gateway that takes routes of its own namespace only does not lead to the pool."""
    same = kit.gateway("front", {"name": "http", "port": 80, "protocol": "HTTP"})
    route = kit.route("route", kit.to_pool("pool"), namespace="other")
    status = kit.status_of(kit.pool(namespace="other"), route, same, kit.gateway_class())
    assert parents(kit, status)["front"]["Accepted"] == ("False", "HTTPRouteNotAccepted")
    assert parents(kit, kit.status_of(route, same, kit.gateway_class()))["front"]["Accepted"] == (
        "False",
        "NotAllowedByListeners",
    )


def test_parents_of_other_controllers_are_kept(kit):
    """Of routes and of pools; only the default entry of a definition goes with the first real one."""
    theirs = http_routes.RouteParentStatus(
        parent_ref=http_routes.ParentReference(name="x"), controller_name="example.com/c"
    )
    route = msgspec.structs.replace(
        kit.route("route", kit.to_pool("pool")), status=http_routes.HttpRouteStatus(parents=[theirs])
    )
    around = (kit.gateway(), kit.gateway_class())
    status = kit.status_of(route, kit.pool(), *around)
    assert status.parents[0] == theirs
    assert len(status.parents) == 2
    of_them = gie_v1.ParentStatus(
        parent_ref=gie_v1.ParentReference(name="x"), controller_name="example.com/c"
    )
    default = gie_v1.ParentStatus(parent_ref=gie_v1.ParentReference(kind="Status", name="default"))
    pool = msgspec.structs.replace(kit.pool(), status=gie_v1.InferencePoolStatus(parents=[default, of_them]))
    made = kit.status_of(pool, route, *around)
    assert [each.parent_ref.name for each in made.parents] == ["x", "front"]


def test_an_equal_finding_makes_an_equal_status(kit):
    """Transition times stay, so that nothing is written."""
    route = kit.route("route", {"name": "web", "port": 8080})
    around = (kit.gateway(), kit.gateway_class(), kit.service("web"))
    status = kit.status_of(route, *around)
    stated = msgspec.structs.replace(route, status=status)
    [found] = [
        findings
        for (kind, _), findings in kit.assess(stated, *around).findings.items()
        if kind is http_routes.HttpRoute
    ]
    assert forming.is_current(stated, forming.formed(stated, found, kit.controller, "2026-02-01T00:00:00Z"))
