"""The limits and shares of tenants in the form of other rooms."""

from __future__ import annotations

from collections.abc import Mapping

from headgate import routing
from headgate.api import Tenant
from headgate.auth.tenant import limit_of
from headgate.routing.model_routes import token_limits


def routes_of(tenants: Mapping[str, Tenant]) -> list[routing.Route]:
    """A route without rules for each limit, in which token limits count the tokens of the tenant."""
    found = []
    for name, tenant in tenants.items():
        for limit in tenant.spec.limits:
            limits = token_limits(limit)
            if limits is not None:
                key = limit_of(name, limit.unit)
                shown = f"tenant/{name}/{limit.unit}"
                found.append(
                    routing.Route(
                        key=key,
                        name=shown,
                        model=None,
                        adapters=(),
                        rules=(),
                        limits=limits,
                        uid=tenant.metadata.uid,
                    )
                )
    return found


def weights_of(tenants: Mapping[str, Tenant]) -> tuple[str, ...]:
    """Shares other than 1, in the form of the setting `queue.weights`."""
    return tuple(
        f"{name}={tenant.spec.share}" for name, tenant in sorted(tenants.items()) if tenant.spec.share != 1
    )
