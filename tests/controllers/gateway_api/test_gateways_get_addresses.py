"""Addresses of Gateways: named ones, shared ones, and one for each from a range."""

import ipaddress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.api import gateways
from headgate.controllers.gateway_api import addresses


def gateway(name: str, *named: str, has: tuple[str, ...] = (), age: int = 0) -> gateways.Gateway:
    """`named` are the addresses of its spec, `has` those of its status."""
    return gateways.Gateway(
        metadata=api.ObjectMeta(name=name, namespace="ns", creation_timestamp=f"2026-01-01T00:00:{age:02}Z"),
        spec=gateways.GatewaySpec(
            gateway_class_name="headgate",
            listeners=[gateways.Listener(name="http", port=80, protocol="HTTP")],
            addresses=[gateways.GatewayAddress(value=value) for value in named],
        ),
        status=gateways.GatewayStatus(addresses=[gateways.GatewayAddress(value=value) for value in has]),
    )


def values(found, name: str) -> list[str]:
    return [each.value for each in found[api.ObjectKey("ns", name)]]


def test_gateways_share_the_addresses_of_headgates_gateways():
    """A host name is an address of type Hostname."""
    source = addresses.parsed(["192.0.2.1", "lb.example.com"])
    found = addresses.assigned([gateway("a"), gateway("b")], source)
    assert values(found, "a") == values(found, "b") == ["192.0.2.1", "lb.example.com"]
    assert [each.type for each in found[api.ObjectKey("ns", "a")]] == ["IPAddress", "Hostname"]


def test_with_a_range_each_gateway_has_an_address_of_its_own():
    """It keeps the address as long as it exists; of two with the same one, the older keeps it."""
    source = addresses.parsed(["10.0.0.0/29"])
    mine = [gateway("a", age=2), gateway("b", has=("10.0.0.1",), age=1), gateway("c", has=("10.0.0.1",))]
    found = addresses.assigned(mine, source)
    assert values(found, "c") == ["10.0.0.1"]
    assert sorted(values(found, "a") + values(found, "b")) == ["10.0.0.2", "10.0.0.3"]


def test_an_address_that_a_gateway_names_is_not_given_to_another():
    """Not even if the other one had it before."""
    found = addresses.assigned(
        [gateway("a", has=("10.0.0.1",)), gateway("b", "10.0.0.1", age=5)], addresses.parsed(["10.0.0.0/29"])
    )
    assert values(found, "b") == ["10.0.0.1"]
    assert values(found, "a") == ["10.0.0.2"]


def test_without_a_source_and_after_the_end_of_a_range_there_is_no_address():
    """A range of /30 has two."""
    assert values(addresses.assigned([gateway("a")], addresses.AddressSource()), "a") == []
    three = [gateway(name, age=age) for age, name in enumerate("abc")]
    found = addresses.assigned(three, addresses.parsed(["10.0.0.0/30"]))
    assert [values(found, name) for name in "abc"] == [["10.0.0.1"], ["10.0.0.2"], []]


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "10.0.0.1", "10.0.0.3", "192.0.2.1", "x.example"]), st.integers(0, 9)),
        max_size=8,
    )
)
def test_no_two_gateways_get_the_same_address_and_a_second_pass_changes_nothing(said):
    """Whatever their statuses had."""
    source = addresses.parsed(["10.0.0.0/28"])
    mine = [gateway(f"g{i}", has=(has,) if has else (), age=age) for i, (has, age) in enumerate(said)]
    found = addresses.assigned(mine, source)
    given_out = [value for i in range(len(mine)) for value in values(found, f"g{i}")]
    assert len(set(given_out)) == len(given_out) == len(mine)
    assert all(ipaddress.ip_address(value) in source.range for value in given_out)
    again = [gateway(f"g{i}", has=tuple(values(found, f"g{i}")), age=age) for i, (_, age) in enumerate(said)]
    assert addresses.assigned(again, source) == found


def test_only_ip_addresses_can_be_named():
    """One without a value asks for any address."""
    assert addresses.unsupported(gateway("a", "10.0.0.1", "")) == []
    assert addresses.unsupported(gateway("a", "10.0.0.999")) != []


@pytest.mark.parametrize(
    "wrong", [["10.0.0.1/8"], ["10.0.0.0/24", "10.0.1.0/24"], ["10.0.0.0/24", "192.0.2.1"], ["a b"], [""]]
)
def test_a_wrong_value_of_the_command_line_is_refused(wrong):
    """The message names it, or says what may be written."""
    with pytest.raises(addresses.AddressError, match=r"range|address"):
        addresses.parsed(wrong)


def test_the_service_of_the_gateways_has_the_addresses(kit):
    """Of its load balancer, as far as it has some; the controller tries those of the cluster, because a load
    balancer may be out of reach from inside. A Gateway that names an address is tried there."""
    inside = {"clusterIPs": ["10.96.0.7"]}
    assert addresses.of_service(kit.service("s", **inside)) == addresses.AddressSource(["10.96.0.7"])
    assert addresses.of_service(kit.service("s", clusterIP="None")) == addresses.AddressSource([])
    balanced = kit.service("s", type="LoadBalancer", **inside)
    assert addresses.of_service(balanced).shared == []
    ingress = [{"ip": "192.0.2.1"}, {"hostname": "lb.example.com"}, {}]
    status = {"loadBalancer": {"ingress": ingress}}
    source = addresses.of_service(msgspec.structs.replace(balanced, status=status))
    assert (source.shared, source.inside) == (["192.0.2.1", "lb.example.com"], ["10.96.0.7"])
    found = addresses.assigned([gateway("a"), gateway("b", "192.0.2.9")], source)
    assert addresses.hosts(gateway("a"), found[api.ObjectKey("ns", "a")], source) == ["10.96.0.7"]
    named = gateway("b", "192.0.2.9")
    assert addresses.hosts(named, found[api.ObjectKey("ns", "b")], source) == ["192.0.2.9"]
