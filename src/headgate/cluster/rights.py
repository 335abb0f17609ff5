"""Access to a kind that an API server denies, and the rule of a role that would grant it."""

from __future__ import annotations

import msgspec

from headgate import api


class Denied(msgspec.Struct, frozen=True):
    """Objects that may not be read; `namespace` is None for those of all namespaces."""

    resource: api.Resource
    namespace: str | None
    why: str
    """The server's reason, which names the account."""
    name: str = ""
    """The name of the object, if it is about a single one."""

    @property
    def rule(self) -> str:
        """The missing rule, as in a manifest."""
        group = self.resource.group or '""'
        names = f", resourceNames: [{self.name}]" if self.name else ""
        plural = self.resource.plural
        return f"{{apiGroups: [{group}], resources: [{plural}]{names}, verbs: [list, watch]}}"

    def __str__(self) -> str:
        where = f"Role in namespace {self.namespace}" if self.namespace else "ClusterRole"
        whose = f"of namespace {self.namespace}" if self.namespace else "of all namespaces"
        kind = f"{self.resource.kind} {self.name}" if self.name else self.resource.plural
        return (
            f"{kind} {whose} may not be read: {self.why}; add the rule {self.rule} to a "
            f"{where} that is bound to this account"
        )
