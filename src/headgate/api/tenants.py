"""Headgate's own dialect: what no other one has. A Tenant says what a group of clients may do."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from headgate.api.expressions import Validation, rule
from headgate.api.kthena_networking import RateLimit
from headgate.api.meta import ObjectMeta, Part, Resource, described

GROUP, VERSION = "headgate.dev", "v1alpha1"

LOWEST, HIGHEST = -(2**31), 2**31 - 1
_NAME_OR_PATTERN = {"minLength": 1, "maxLength": 256}


class PriorityBounds(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[Validation]] = [
        rule("!has(self.min) || !has(self.max) || self.min <= self.max", "min must not be above max"),
    ]

    min: Annotated[
        Annotated[int, Meta(ge=LOWEST, le=HIGHEST)] | None,
        described("Requests of a lower priority are raised to this one. Unset: not raised."),
    ] = None
    max: Annotated[
        Annotated[int, Meta(ge=LOWEST, le=HIGHEST)] | None,
        described("Requests of a higher priority are lowered to this one. Unset: not lowered."),
    ] = None


class TenantSpec(Part, frozen=True, kw_only=True):
    models: Annotated[
        list[Annotated[str, described("A model name; * stands for any text.", **_NAME_OR_PATTERN)]],
        Meta(max_length=256),
        described("Models that the tenant may use, by name or pattern, such as llama-*. Unset: all."),
    ] = []
    subjects: Annotated[
        list[Annotated[str, described("A name; * stands for any text.", **_NAME_OR_PATTERN)]],
        Meta(max_length=256),
        described(
            "Clients that belong to the tenant besides those with one of its API keys: names from tokens and "
            "client certificates. The name of the tenant is one of them."
        ),
    ] = []
    limits: Annotated[
        list[RateLimit],
        Meta(max_length=5),
        described(
            "Tokens that the tenant may use in all models together, for each unit of time. A request must "
            "fit each limit, and that of its route.",
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["unit"]},
        ),
    ] = []
    share: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        described("Weight of its queued requests in a full pool, relative to other tenants.", format="int32"),
    ] = 1
    priority: Annotated[
        PriorityBounds | None, described("Bounds of the priority of its requests. Unset: none.")
    ] = None
    may_choose: Annotated[
        list[Literal["FairnessID", "Objective"]],
        Meta(max_length=2),
        described(
            "Headers that are believed: Objective, to name an InferenceObjective within the bounds of "
            "priority; FairnessID, to name any flow, for a proxy that sends requests of several tenants.",
            **{"x-kubernetes-list-type": "set"},
        ),
    ] = []


class Tenant(Part, frozen=True, kw_only=True):
    """Tenant is a group of clients that share limits, and a fair part of each pool."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "Tenant", "tenants")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[TenantSpec, described("What the tenant may do.")]
