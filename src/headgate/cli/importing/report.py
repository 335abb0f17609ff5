"""The report of an import: one entry per object, then what would be served how."""

from __future__ import annotations

from typing import Literal

import msgspec

from headgate.api.forms import Change, Difference

Outcome = Literal["as-is", "own-route", "converted", "not-served", "refused"]
"""own-route: an HTTPRoute of a Gateway of Headgate, which needs no import."""


class Fault(msgspec.Struct, frozen=True):
    """A reason for which an API server would reject the object."""

    path: str
    message: str
    fix: str = ""


class ObjectReport(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    """File and line, or the API server."""
    api_version: str
    object: str
    """Kind, namespace and name."""
    outcome: Outcome
    becomes: tuple[str, ...] = ()
    """With apiVersion. The same object if it is taken as it is."""
    changes: tuple[Change, ...] = ()
    differences: tuple[Difference, ...] = ()
    errors: tuple[Fault, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_served(self) -> bool:
        """Whether requests are served as before, as far as this object decides."""
        return self.outcome != "refused" and not any(each.changes_service for each in self.differences)


class TargetReport(msgspec.Struct, frozen=True):
    pool: str
    weight: int
    share: float
    model: str = ""
    """The model name that endpoints get; empty for the client's."""


class RuleReport(msgspec.Struct, frozen=True):
    name: str
    conditions: tuple[str, ...]
    targets: tuple[TargetReport, ...]


class RouteReport(msgspec.Struct, frozen=True):
    object: str
    rules: tuple[RuleReport, ...]
    priority: int = 0
    is_reserved: bool = False


class NameReport(msgspec.Struct, frozen=True):
    """A model name, with its routes in order."""

    name: str
    kind: Literal["model", "adapter", "any other name"]
    routes: tuple[RouteReport, ...]


class EndpointReport(msgspec.Struct, frozen=True):
    name: str
    address: str
    role: str = ""


class PoolReport(msgspec.Struct, frozen=True, kw_only=True):
    pool: str
    engine: str
    protocol: str
    port: str
    """The ports of its Pods, unless a Pod has others; empty if the Pods decide."""
    selector: dict[str, str]
    endpoints: tuple[EndpointReport, ...]
    workloads: tuple[str, ...] = ()
    """Workloads that make such Pods, if there are no Pods to look at."""
    absent: tuple[str, ...]
    """Pods that it selects and that are not endpoints, with the reason."""


class Trouble(msgspec.Struct, frozen=True):
    """A conflict, or a reference that does not resolve."""

    object: str
    reason: str
    message: str


class Unread(msgspec.Struct, frozen=True):
    """A kind, or a file, that could not be read."""

    what: str
    why: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    objects: tuple[ObjectReport, ...]
    names: tuple[NameReport, ...]
    pools: tuple[PoolReport, ...]
    troubles: tuple[Trouble, ...]
    unread: tuple[Unread, ...]
    absent_kinds: tuple[str, ...]
    """Kinds that the cluster does not have."""
    ignored: dict[str, int]
    """Objects that have nothing to do with the import, by kind."""
    knows_pods: bool
    """Whether there are Pods to say which endpoints a pool has."""

    @property
    def is_served(self) -> bool:
        return not self.troubles and not self.unread and all(each.is_served for each in self.objects)
