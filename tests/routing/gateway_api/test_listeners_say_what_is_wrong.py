"""Listeners that cannot be served say why; all others are served."""

from __future__ import annotations

import base64

import msgspec
import pytest
from gateway_objects import HTTP, Head, decoded, gateway, leads_to, route, translate, world

from headgate import api
from headgate.api import gateways
from headgate.api.reference_grants import ReferenceGrant
from headgate.routing import gateway_api

PEM = "-----BEGIN {0}-----\nMIIB\n-----END {0}-----\n"


def secret(name: str = "cert", namespace: str = "shop", **data: str) -> api.Secret:
    given = {"tls.crt": PEM.format("CERTIFICATE"), "tls.key": PEM.format("PRIVATE KEY")}
    given |= {name.replace("_", "."): text for name, text in data.items()}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in given.items()}
    return decoded(api.Secret, name, namespace, data=encoded, type="kubernetes.io/tls")


def https(name: str = "https", port: int = 443, **ref: str):
    refs = [{"name": "cert", **ref}]
    return {"name": name, "port": port, "protocol": "HTTPS", "tls": {"certificateRefs": refs}}


def states(*objects: object, name: str = "front", **rest: object):
    [*found] = translate(*objects, **rest).gateways[api.ObjectKey("shop", name)].listeners
    return found


def reasons(*objects: object) -> list[list[tuple[str, str]]]:
    return [[(fault.condition, fault.reason) for fault in state.faults] for state in states(*objects)]


def test_a_gateway_of_another_class_is_nobodys() -> None:
    other = decoded(api.Gateway, "front", spec={"gatewayClassName": "theirs", "listeners": [HTTP]})
    found = translate(other, route())
    assert not found.gateways
    assert not found.routes
    assert not found.entry_points.ports


def test_a_protocol_that_is_not_supported_is_told() -> None:
    tcp = {"name": "tcp", "port": 5432, "protocol": "TCP"}
    assert reasons(gateway("front", HTTP, tcp)) == [[], [("Accepted", "UnsupportedProtocol")]]


def test_two_protocols_on_one_port_are_a_conflict_of_both() -> None:
    found = reasons(gateway("front", https(port=80), HTTP), secret())
    assert found == [[("Conflicted", "ProtocolConflict")]] * 2


def test_one_host_name_twice_is_a_conflict_of_both() -> None:
    same = [{**HTTP, "name": name, "hostname": host} for name, host in (("a", "x.com"), ("b", "X.com"))]
    assert reasons(gateway("front", *same, HTTP)) == [*[[("Conflicted", "HostnameConflict")]] * 2, []]


def test_on_one_port_the_protocol_of_the_older_gateway_is_served() -> None:
    old = gateway("old", HTTP, creationTimestamp="2026-01-01T00:00:00Z")
    new = gateway("front", https(port=80), creationTimestamp="2026-01-02T00:00:00Z")
    assert reasons(new, old, secret()) == [[("Conflicted", "ProtocolConflict")]]
    assert states(new, old, secret(), name="old")[0].is_served


def test_gateways_with_the_same_port_and_host_share_it() -> None:
    mine = route("mine", {"matches": [{"path": {"value": "/mine"}}]})
    theirs = route("theirs", {"matches": [{"path": {"value": "/theirs"}}]}, parents=[{"name": "other"}])
    found = translate(gateway(), gateway("other"), mine, theirs)
    assert leads_to(found, "h", Head("/mine")) == "HTTPRoute/shop/mine rules[0]"
    assert leads_to(found, "h", Head("/theirs")) == "HTTPRoute/shop/theirs rules[0]"


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([], "InvalidCertificateRef"),
        ([secret(tls_crt="nothing")], "InvalidCertificateRef"),
        ([secret(tls_key=PEM.format("CERTIFICATE"))], "InvalidCertificateRef"),
    ],
)
def test_a_certificate_that_cannot_be_read_is_told(objects: list[object], reason: str) -> None:
    [state] = states(gateway("front", https()), *objects)
    assert [(fault.condition, fault.reason) for fault in state.faults] == [("ResolvedRefs", reason)]
    assert state.is_accepted
    assert not state.is_served


def test_another_kind_than_secret_holds_no_certificate() -> None:
    found = reasons(gateway("front", https(kind="ConfigMap")), secret())
    assert found == [[("ResolvedRefs", "InvalidCertificateRef")]]


def test_a_certificate_of_another_namespace_needs_a_grant() -> None:
    elsewhere = [gateway("front", https(namespace="vault")), secret(namespace="vault")]
    assert reasons(*elsewhere) == [[("ResolvedRefs", "RefNotPermitted")]]
    ends = {
        "from": [{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "shop"}],
        "to": [{"group": "", "kind": "Secret"}],
    }
    [state] = states(*elsewhere, decoded(ReferenceGrant, "g", "vault", spec=ends))
    assert not state.faults
    assert state.is_served


def test_kinds_of_routes_that_are_not_supported_are_told_and_the_others_attach() -> None:
    grpc, http = ({"kind": kind} for kind in ("GRPCRoute", "HTTPRoute"))
    both = {**HTTP, "allowedRoutes": {"kinds": [grpc, http]}}
    [state] = states(gateway("front", both))
    assert [fault.reason for fault in state.faults] == ["InvalidRouteKinds"]
    assert state.kinds == ("HTTPRoute",)
    assert state.is_served
    [state] = states(gateway("front", {**HTTP, "allowedRoutes": {"kinds": [grpc]}}))
    assert state.kinds == ()


def test_gateways_are_kept_apart_by_their_addresses() -> None:
    def at(name: str, address: str) -> api.Gateway:
        spec = {"gatewayClassName": "headgate", "listeners": [HTTP], "addresses": [{"value": address}]}
        return decoded(api.Gateway, name, spec=spec)

    both = at("front", "10.0.0.1"), at("other", "10.0.0.2")
    mine = route("mine", {"matches": [{"path": {"value": "/mine"}}]})
    found = translate(*both, mine)
    assert leads_to(found, "h", Head("/mine"), ("10.0.0.1", 80)) is not None
    assert leads_to(found, "h", Head("/mine"), ("10.0.0.2", 80)) is None


def test_addresses_of_the_status_are_used_where_they_are_assigned() -> None:
    bare = gateway()
    assigned = msgspec.structs.replace(
        bare, status=msgspec.convert({"addresses": [{"value": "10.0.0.9"}]}, gateways.GatewayStatus)
    )
    settings = gateway_api.Settings(are_assigned=True)
    found = [
        gateway_api.Translator(settings).translate(world(each), ()).entry_points.ports
        for each in (bare, assigned)
    ]
    assert [list(each) for each in found] == [[], [("10.0.0.9", 80)]]


@pytest.mark.parametrize(
    ("own", "named", "may_be_served"),
    [
        ("0.0.0.0", "10.0.0.5", False),
        ("::", "127.0.0.1", False),
        ("127.0.0.1", "0.0.0.0", False),
        ("127.0.0.1", "::ffff:127.0.0.1", False),
        ("localhost", "127.0.0.1", False),
        ("127.0.0.1", None, False),
        ("127.0.0.1", "10.0.0.5", True),
        ("127.0.0.1", "127.0.0.2", True),
    ],
)
def test_no_address_gets_the_connections_of_headgates_own_ports(own, named, may_be_served) -> None:
    """Sockets of one port share it: the more precise address would get all connections to it."""
    front = gateway("front", {**HTTP, "port": 8080})
    if named is not None:
        address = gateways.GatewayAddress(type="IPAddress", value=named)
        front = msgspec.structs.replace(front, spec=msgspec.structs.replace(front.spec, addresses=[address]))
    translator = gateway_api.Translator(gateway_api.Settings(taken=[gateway_api.Place(own, 8080)]))
    translation = translator.translate(world(front), ())
    [state] = translation.gateways[front.metadata.key].listeners
    assert state.is_served == may_be_served
    assert bool(translation.entry_points.ports) == may_be_served
