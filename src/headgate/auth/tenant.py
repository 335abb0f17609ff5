"""A tenant as requests meet it."""

from __future__ import annotations

from headgate.api import ObjectRef
from headgate.api.tenants import HIGHEST, LOWEST, Tenant
from headgate.auth.patterns import Names

KIND = "Tenant"


class Grant:
    """What the clients of one tenant may do. Immutable."""

    __slots__ = (
        "chooses_flow",
        "chooses_objective",
        "flow",
        "highest",
        "is_defined",
        "limits",
        "lowest",
        "models",
        "name",
        "share",
    )

    def __init__(self, name: str, source: Tenant | None = None, flow: str = "") -> None:
        """Without a `source`, the tenant is not defined, and may do everything. `flow`: the name of its
        queued requests, if it differs."""
        spec = source.spec if source is not None else None
        priority = spec.priority if spec is not None else None
        chooses = spec.may_choose if spec is not None else []
        self.name = name
        self.flow = flow or name
        self.is_defined = source is not None
        self.models = Names(spec.models if spec is not None else ())
        """Empty: all."""
        self.limits: tuple[ObjectRef, ...] = tuple(
            limit_of(name, limit.unit) for limit in (spec.limits if spec is not None else ())
        )
        """The keys of its token limits."""
        self.share = spec.share if spec is not None else 1
        self.lowest = LOWEST if priority is None or priority.min is None else priority.min
        self.highest = HIGHEST if priority is None or priority.max is None else priority.max
        self.chooses_flow = "FairnessID" in chooses
        self.chooses_objective = "Objective" in chooses

    def may_use(self, model: str) -> bool:
        return not self.models or model in self.models

    def bounded(self, priority: int) -> int:
        """The nearest priority that it may have."""
        return min(max(priority, self.lowest), self.highest)


def limit_of(tenant: str, unit: str) -> ObjectRef:
    """The key of a tenant's limit per unit of time."""
    return ObjectRef(KIND, unit, tenant)
