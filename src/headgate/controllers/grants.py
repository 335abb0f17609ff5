"""References of AutoscalingPolicyBindings to other namespaces, and whether these allow them."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec

from headgate import api
from headgate.api.admission.index_keys import group_of_kind
from headgate.api.reference_grants import NOT_PERMITTED, End, Reference, ReferenceGrant
from headgate.controllers.conditions import Finding, enumerated
from headgate.controllers.findings import RESOLVED_REFS


class Grants(msgspec.Struct, frozen=True):
    """The ReferenceGrants that are known."""

    found: Collection[ReferenceGrant] = ()
    is_installed: bool = True
    """Whether the server has the kind."""
    namespaces: Collection[str] = ()
    """Those whose grants are followed; all if there are none."""


def references(binding: api.AutoscalingPolicyBinding) -> Iterator[tuple[str, Reference]]:
    """The targets of a binding, each with its field."""
    resource, metadata, spec = binding.resource, binding.metadata, binding.spec
    source = End(resource.group, resource.kind, metadata.namespace, metadata.name)
    places = [("spec.scalingConfiguration", spec.scaling_configuration)]
    if spec.optimizer_configuration is not None:
        params = spec.optimizer_configuration.params
        places += [(f"spec.optimizerConfiguration.params[{i}]", each) for i, each in enumerate(params)]
    for place, scaling in places:
        if scaling is None or scaling.target is None:
            continue
        of = scaling.target.target_ref
        group = group_of_kind(of.api_version, of.kind) or ""
        target = End(group, of.kind, of.namespace or source.namespace, of.name)
        yield f"{place}.target.targetRef", Reference(source, target)


def finding(binding: api.AutoscalingPolicyBinding, grants: Grants) -> Finding | None:
    """Whether it may refer to its targets; None if that was never a question."""
    named = dict(references(binding))
    said = binding.status.conditions if binding.status is not None else []
    if not any(each.is_across for each in named.values()) and RESOLVED_REFS not in {c.type for c in said}:
        return None
    refused = [
        f"{field}: {_refusal(reference, grants)}"
        for field, reference in named.items()
        if not reference.is_allowed(grants.found)
    ]
    if refused:
        return Finding(RESOLVED_REFS, False, NOT_PERMITTED, enumerated(refused, "; "))
    told = "Every target is in the same namespace, or in one that allows the reference"
    return Finding(RESOLVED_REFS, True, "ResolvedRefs", told)


def _refusal(reference: Reference, grants: Grants) -> str:
    namespace = reference.target.namespace
    if grants.namespaces and namespace not in grants.namespaces:
        return f"namespace {namespace} is none of those that this controller follows"
    return reference.refusal(is_installed=grants.is_installed)
