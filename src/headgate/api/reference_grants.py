"""ReferenceGrant of the Gateway API: references to objects of another namespace, allowed by that namespace.

A reference within a namespace is always allowed. One to another namespace is refused unless a grant in the
target's namespace allows it, whatever the account that follows it may do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, NamedTuple

import msgspec

from headgate.api.meta import GROUP as GROUP_SCHEMA
from headgate.api.meta import KIND, NAMESPACE, OBJECT_NAME, ObjectMeta, Part, Resource, described

GROUP = "gateway.networking.k8s.io"
_ATOMIC = {"x-kubernetes-list-type": "atomic", "minItems": 1, "maxItems": 16}

NOT_PERMITTED = "RefNotPermitted"
"""The reason of a condition about a reference that is refused."""


class ReferenceGrantFrom(Part, frozen=True, kw_only=True):
    group: Annotated[
        str, described("Group of the objects that refer; empty for the core group.", **GROUP_SCHEMA)
    ]
    kind: Annotated[str, described("Kind of the objects that refer.", **KIND)]
    namespace: Annotated[str, described("Namespace of the objects that refer.", **NAMESPACE)]


class ReferenceGrantTo(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("Group of the target; empty for the core group.", **GROUP_SCHEMA)]
    kind: Annotated[str, described("Kind of the target.", **KIND)]
    name: Annotated[
        str | None, described("Name of the target. Unset: every object of the kind.", **OBJECT_NAME)
    ] = None


class ReferenceGrantSpec(Part, frozen=True, kw_only=True):
    from_: Annotated[
        list[ReferenceGrantFrom], described("Who may refer to objects of this namespace.", **_ATOMIC)
    ] = msgspec.field(name="from")
    to: Annotated[list[ReferenceGrantTo], described("What they may refer to.", **_ATOMIC)]


class ReferenceGrant(Part, frozen=True, kw_only=True):
    """ReferenceGrant allows objects of other namespaces to refer to objects of its own."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1beta1", "ReferenceGrant", "referencegrants")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ReferenceGrantSpec, described("Who may refer to what.")]


class ReferenceGrantV1(ReferenceGrant, frozen=True, kw_only=True):
    """ReferenceGrant allows objects of other namespaces to refer to objects of its own."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "ReferenceGrant", "referencegrants")


class End(NamedTuple):
    """One end of a reference. Groups are without a version, and empty for the core group."""

    group: str
    kind: str
    namespace: str
    name: str


class Reference(NamedTuple):
    """A reference from one object to another."""

    source: End
    target: End

    @property
    def is_across(self) -> bool:
        """Whether it leaves the namespace."""
        return self.source.namespace != self.target.namespace

    def is_allowed(self, grants: Iterable[ReferenceGrant]) -> bool:
        """Whether it may be followed, by these grants of any namespaces."""
        return not self.is_across or any(self._is_allowed_by(grant) for grant in grants)

    def _is_allowed_by(self, grant: ReferenceGrant) -> bool:
        source, target = self.source, self.target
        return (
            grant.metadata.namespace == target.namespace
            and grant.metadata.deletion_timestamp is None
            and any(
                (each.group, each.kind, each.namespace) == (source.group, source.kind, source.namespace)
                for each in grant.spec.from_
            )
            and any(
                (each.group, each.kind) == (target.group, target.kind)
                and each.name in (None, "", target.name)
                for each in grant.spec.to
            )
        )

    @property
    def allowing(self) -> list[tuple[str, ...]]:
        """What a grant must allow, in full or for every name, as `admission.index_keys` has it."""
        source, target = self.source, self.target
        ends = (target.namespace, source.group, source.kind, source.namespace, target.group, target.kind)
        return [(*ends, target.name), (*ends, "")]

    @property
    def grant(self) -> str:
        """The manifest of a grant that allows it, as one line of YAML."""
        source, target = self.source, self.target
        name = f"{source.namespace}-{source.kind}".lower()
        ours = f'{{group: "{source.group}", kind: "{source.kind}", namespace: "{source.namespace}"}}'
        theirs = f'{{group: "{target.group}", kind: "{target.kind}", name: "{target.name}"}}'
        return (
            f"{{apiVersion: {GROUP}/v1beta1, kind: ReferenceGrant, "
            f'metadata: {{name: "{name}", namespace: "{target.namespace}"}}, '
            f"spec: {{from: [{ours}], to: [{theirs}]}}}}"
        )

    @property
    def hint(self) -> str:
        """The same in words, for a warning, which is short."""
        source, target = self.source, self.target
        return (
            f"refused unless a ReferenceGrant in namespace {target.namespace} allows it, from "
            f'{source.kind}, group "{source.group}", namespace {source.namespace}, to {target.kind}, group '
            f'"{target.group}", name {target.name}'
        )

    def refusal(self, *, is_installed: bool = True) -> str:
        """Why it is refused, and what to do. `is_installed`: whether the server has ReferenceGrants."""
        target = self.target
        who = f"namespace {target.namespace} does not allow a reference to {target.kind} {target.name}"
        install = "install the definitions of the Gateway API, which has ReferenceGrants, and "
        do = f"apply {self.grant}"
        return f"{who} from namespace {self.source.namespace}: {'' if is_installed else install}{do}"
