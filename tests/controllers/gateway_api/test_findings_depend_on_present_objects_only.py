"""What is found out depends on the present objects only, not on how they came to be."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.controllers.gateway_api import GatewayApiSettings, parsed
from headgate.controllers.gateway_api.assessment import Assessor
from headgate.controllers.gateway_api.objects import Objects

SETTINGS = GatewayApiSettings(addresses=parsed(["192.0.2.1"]))


def versions(kit) -> list:
    """Objects in several versions, which refer to each other."""
    same = {"name": "http", "port": 80, "protocol": "HTTP"}
    udp = {"name": "http", "port": 80, "protocol": "UDP"}
    tls = {"name": "tls", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "x"}]}}
    wrong = {"rules": [{"backendRefs": [kit.to_pool("pool")], "filters": [{"type": "Unknown"}]}]}
    grant = {
        "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "other"}],
        "to": [{"group": "", "kind": "Service"}],
    }
    across = {"name": "web", "namespace": "default", "port": 8080}
    return [
        kit.gateway_class(),
        kit.gateway_class(controller="example.com/other"),
        kit.gateway("front"),
        kit.gateway("front", same, tls, generation=2),
        kit.gateway("front", udp, generation=3),
        kit.gateway("back", same),
        kit.route("one", kit.to_pool("pool")),
        kit.route("one", {"name": "web", "port": 8080}, to=("front", "back")),
        kit.route("one", **wrong),
        kit.route("two", across, kit.to_pool("pool"), namespace="other"),
        kit.pool("pool"),
        kit.pool("pool", picker="epp"),
        kit.service("epp", 9002),
        kit.service("web"),
        kit.made("ReferenceGrant", "grant", grant),
        kit.made("Namespace", "other", labels={"team": "a"}),
    ]


@given(data=st.data())
def test_after_any_changes_all_is_as_for_the_present_objects(kit, data):
    """Also what is kept of routes that did not change."""
    every = versions(kit)
    changes = data.draw(st.lists(st.tuples(st.integers(0, len(every) - 1), st.booleans()), max_size=12))
    objects, assessor = Objects(SETTINGS.controller_name), Assessor(SETTINGS)
    present = {}
    for number, is_there in changes:
        obj = every[number]
        key = type(obj), obj.metadata.key
        objects.put(*key, obj if is_there else None)
        present.pop(key, None)
        if is_there:
            present[key] = obj
        fresh = Objects(SETTINGS.controller_name)
        for (kind, name), each in present.items():
            fresh.put(kind, name, each)
        found = assessor.assess(objects, lambda _: True)
        assert found == Assessor(SETTINGS).assess(fresh, lambda _: True)
