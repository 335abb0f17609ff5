"""Fallbacks of a client that may use some models only."""

import json

from one_plane import Asked, Plane

from headgate import api, routing
from headgate.api.fallbacks import USUAL
from headgate.api.tenants import Tenant, TenantSpec
from headgate.auth.tenant import Grant
from headgate.requests.effects import Refuse
from headgate.requests.in_process import InProcess
from headgate.requests.proxied import Proxied


def _snapshot(*next):
    """ "m" has no endpoint; "a" and "b" have one each."""
    fallback = routing.Fallback(next=tuple(map(routing.Next, next)), reasons=USUAL)
    models, pools = {}, {}
    for place, name in enumerate(("m", "a", "b")):
        key = api.ObjectRef("ModelServer", "default", name)
        endpoints = (routing.Endpoint(f"default/{name}", "127.0.0.1", 9000 + place),) if place else ()
        pools[key] = routing.Pool(key=key, endpoints=endpoints)
        models[name] = (
            routing.Route(
                key=api.ObjectRef("ModelRoute", "default", name),
                name=f"default/{name}",
                model=name,
                adapters=(),
                rules=(routing.Rule("rule", None, (routing.Target(key, 1),)),),
                fallback=None if place else fallback,
            ),
        )
    return routing.Snapshot(models=models, pools=pools)


def _ask(models, *next):
    plane = Plane()
    plane.plane.use(_snapshot(*next), plane.now)
    asked = Asked({"model": "m", "prompt": "hello"}, now=plane.now)
    asked.tenant = Grant("team", Tenant(metadata=api.ObjectMeta(name="team"), spec=TenantSpec(models=models)))
    shell = InProcess(plane.plane, asked)
    shell.start(plane.now)
    shell.life.validate()
    return shell


def test_a_model_that_the_tenant_may_not_use():
    """It is passed over, and the next one serves."""
    shell = _ask(["m", "b"], "a", "b")
    assert json.loads(shell.asked.body)["model"] == "b"
    assert [hop.model for hop in shell.life.fallen.hops] == ["m"]


def test_no_model_that_the_tenant_may_use():
    """The refusal is that of its own model, and names no other."""
    shell = _ask(["m"], "a", "b")
    assert isinstance(shell.done[-1], Refuse)
    assert shell.refusal.code == "no_ready_endpoint"
    assert "'a'" not in shell.refusal.message


def test_a_proxy_that_only_asks_for_a_pick():
    """The picker's shell: the proxy could not send the request to another pool."""
    plane = Plane()
    plane.plane.use(_snapshot("a"), plane.now)
    shell = InProcess(plane.plane, Asked({"model": "m", "prompt": "hello"}, now=plane.now))
    shell.life.proxied = Proxied(asks_for_usage=True)
    shell.start(plane.now)
    assert shell.refusal.code == "no_ready_endpoint"
    assert shell.life.fallen is None


def test_models_that_name_each_other():
    """Only the list of the client's model counts, so there is no circle."""
    shell = _ask([], "m", "a")
    assert json.loads(shell.asked.body)["model"] == "a"
