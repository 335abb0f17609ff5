"""Statuses of GatewayClasses and Gateways."""

import pytest

from headgate.controllers.gateway_api.listening import Place

OK = {"Accepted": ("True", "Accepted"), "Programmed": ("True", "Programmed")}
LISTENER_OK = {
    "Accepted": ("True", "Accepted"),
    "Conflicted": ("False", "NoConflicts"),
    "ResolvedRefs": ("True", "ResolvedRefs"),
    "Programmed": ("True", "Programmed"),
}


def test_a_class_of_ours_is_accepted_and_lists_its_features(kit):
    """In the order that the Gateway API demands."""
    status = kit.status_of(kit.gateway_class())
    assert kit.said(status.conditions) == {"Accepted": ("True", "Accepted")}
    names = [each.name for each in status.supported_features]
    assert names == sorted(names)
    assert {"Gateway", "HTTPRoute", "ReferenceGrant"} <= {*names}


def test_classes_and_gateways_of_other_controllers_are_left_alone(kit):
    """As are Gateways of a class that does not exist."""
    theirs = kit.gateway_class("other", "example.com/controller")
    assert kit.status_of(theirs) is None
    assert kit.status_of(kit.gateway(of="other"), theirs, kit.gateway_class()) is None
    assert kit.status_of(kit.gateway(of="nobodys"), kit.gateway_class()) is None


def test_a_gateway_whose_port_accepts_connections_is_programmed(kit):
    """Its listener too, and the address is where it is served."""
    status = kit.status_of(kit.gateway(), kit.gateway_class(), kit.route())
    assert kit.said(status.conditions) == OK
    [listener] = status.listeners
    assert kit.said(listener.conditions) == LISTENER_OK
    assert (listener.name, listener.attached_routes) == ("http", 1)
    assert [(each.group, each.kind) for each in listener.supported_kinds] == [
        ("gateway.networking.k8s.io", "HTTPRoute")
    ]
    assert [(each.type, each.value) for each in status.addresses] == [("IPAddress", "192.0.2.1")]
    assert {each.observed_generation for each in [*status.conditions, *listener.conditions]} == {1}


@pytest.mark.parametrize("known", [False, None])
def test_a_port_that_nothing_serves_is_not_programmed(kit, known):
    """The Gateway is accepted all the same, and the message says where no gateway is."""
    status = kit.status_of(kit.gateway(), kit.gateway_class(), accepts=lambda _: known)
    assert kit.said(status.conditions) == {**OK, "Programmed": ("False", "Pending")}
    assert kit.said(status.listeners[0].conditions)["Programmed"] == ("False", "Pending")
    [programmed] = [each for each in status.conditions if each.type == "Programmed"]
    assert "192.0.2.1:80" in programmed.message


def test_a_gateway_without_an_address_says_so(kit):
    """Nobody has told the controller where the gateways are."""
    status = kit.status_of(kit.gateway(), kit.gateway_class(), addresses=())
    assert kit.said(status.conditions)["Programmed"] == ("False", "AddressNotAssigned")
    assert status.addresses == []


def test_a_listener_of_an_unknown_protocol_is_refused(kit):
    """The others are served, and the Gateway says that some are not valid."""
    listeners = (
        {"name": "udp", "port": 53, "protocol": "UDP"},
        {"name": "http", "port": 80, "protocol": "HTTP"},
    )
    status = kit.status_of(kit.gateway("front", *listeners), kit.gateway_class())
    assert kit.said(status.conditions) == {**OK, "Accepted": ("True", "ListenersNotValid")}
    udp, http = (kit.said(each.conditions) for each in status.listeners)
    assert udp["Accepted"] == ("False", "UnsupportedProtocol")
    assert udp["Programmed"] == ("False", "Invalid")
    assert http == LISTENER_OK


def test_a_gateway_without_a_valid_listener_is_not_accepted(kit):
    """Nor is it programmed."""
    status = kit.status_of(
        kit.gateway("front", {"name": "udp", "port": 53, "protocol": "UDP"}), kit.gateway_class()
    )
    assert kit.said(status.conditions) == {
        "Accepted": ("False", "ListenersNotValid"),
        "Programmed": ("False", "Invalid"),
    }


def test_listeners_that_conflict_say_so(kit):
    """None of the two wins."""
    listeners = (
        {"name": "plain", "port": 80, "protocol": "HTTP"},
        {"name": "tls", "port": 80, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "x"}]}},
    )
    status = kit.status_of(kit.gateway("front", *listeners), kit.gateway_class())
    for listener in status.listeners:
        found = kit.said(listener.conditions)
        assert found["Conflicted"] == ("True", "ProtocolConflict")
        assert found["Accepted"] == ("False", "ProtocolConflict")


def test_a_missing_certificate_is_an_unresolved_reference(kit):
    """Such a listener is not served."""
    tls = {"name": "tls", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "x"}]}}
    status = kit.status_of(kit.gateway("front", tls), kit.gateway_class())
    found = kit.said(status.listeners[0].conditions)
    assert found["ResolvedRefs"] == ("False", "InvalidCertificateRef")
    assert found["Programmed"] == ("False", "Invalid")


def test_the_gateway_names_its_listeners_that_are_not_served(kit):
    """Also those that are valid, but refer to a certificate that does not exist."""
    plain = {"name": "plain", "port": 80, "protocol": "HTTP"}
    tls = {"name": "tls", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "x"}]}}
    status = kit.status_of(kit.gateway("front", plain, tls), kit.gateway_class())
    told = {each.type: (each.status, each.message) for each in status.conditions}
    accepted = "Headgate serves this Gateway, but listeners have references that lead nowhere: tls"
    assert told["Accepted"] == ("True", accepted)
    assert told["Programmed"][1].endswith("; not served, see their conditions: tls")


def test_only_valid_listeners_are_looked_for(kit):
    """At every address of their Gateway."""
    listeners = (
        {"name": "udp", "port": 53, "protocol": "UDP"},
        {"name": "http", "port": 8088, "protocol": "HTTP"},
    )
    found = kit.assess(
        kit.gateway("front", *listeners), kit.gateway_class(), addresses=("192.0.2.1", "192.0.2.2")
    )
    assert found.places == {Place("192.0.2.1", 8088), Place("192.0.2.2", 8088)}


def test_a_port_that_gateways_need_for_themselves_is_unavailable(kit):
    """At the addresses that Gateways share, where it would accept connections. A Gateway with an address of
    its own may have it."""
    listener = {"name": "http", "port": 8080, "protocol": "HTTP"}
    shared = kit.status_of(kit.gateway("front", listener), kit.gateway_class())
    assert kit.said(shared.listeners[0].conditions)["Accepted"] == ("False", "PortUnavailable")
    assert kit.said(shared.conditions)["Programmed"] == ("False", "Invalid")
    own = kit.made(
        "Gateway",
        "own",
        {
            "gatewayClassName": "headgate",
            "listeners": [listener],
            "addresses": [{"type": "IPAddress", "value": "192.0.2.7"}],
        },
    )
    assert kit.said(kit.status_of(own, kit.gateway_class()).conditions)["Programmed"] == (
        "True",
        "Programmed",
    )
