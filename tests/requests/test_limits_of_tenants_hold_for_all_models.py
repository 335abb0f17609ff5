"""A tenant that has used up its limit falls back to no other model: the limit is the same for all of them."""

import msgspec
from one_plane import Asked, Plane

from headgate import api, routing
from headgate.api.fallbacks import REASONS
from headgate.api.kthena_networking import RateLimit
from headgate.api.tenants import Tenant, TenantSpec
from headgate.auth.tenant import Grant
from headgate.dataplane.credentials import tenant_limits
from headgate.requests.in_process import InProcess


def test_it_is_refused_at_once():
    """For the model that the request is for, however many could take it over."""
    plane = Plane()
    snapshot = plane.plane.snapshot
    (route,) = snapshot.models["m"]
    fallback = routing.Fallback(next=(routing.Next("a"), routing.Next("b")), reasons=frozenset(REASONS))
    models = {name: (msgspec.structs.replace(route, model=name),) for name in "ab"}
    models["m"] = (msgspec.structs.replace(route, fallback=fallback),)
    plane.plane.use(routing.Snapshot(models=models, pools=snapshot.pools), plane.now)
    spec = TenantSpec(limits=[RateLimit(input_tokens_per_unit=1, unit="hour")])
    tenant = Tenant(metadata=api.ObjectMeta(name="team"), spec=spec)
    plane.plane.routes.limits.use_tenants(tenant_limits.routes_of({"team": tenant}), plane.now)
    asked = Asked({"model": "m", "prompt": "hello " * 10}, now=plane.now)
    asked.tenant = Grant("team", tenant)
    shell = InProcess(plane.plane, asked)
    shell.start(plane.now)
    shell.life.validate()
    assert shell.refusal.code == "rate_limit_exceeded"
    assert "'a'" not in shell.refusal.message
    assert not shell.life.fallen.hops
