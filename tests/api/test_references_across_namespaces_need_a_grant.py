"""A reference to another namespace is refused unless a ReferenceGrant there allows it."""

from __future__ import annotations

import msgspec
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headgate import api
from headgate.api import reference_grants
from headgate.api.reference_grants import End, Reference, ReferenceGrant

GROUPS = st.sampled_from(["", "apps", "registry.volcano.sh"])
KINDS = st.sampled_from(["Deployment", "AutoscalingPolicyBinding"])
NAMESPACES = st.sampled_from(["a", "b", "12"])
NAMES = st.sampled_from(["chat", "code", "7"])
REFERENCES = st.builds(
    Reference, *[st.builds(End, group=GROUPS, kind=KINDS, namespace=NAMESPACES, name=NAMES)] * 2
)
FROM = st.builds(reference_grants.ReferenceGrantFrom, group=GROUPS, kind=KINDS, namespace=NAMESPACES)
TO = st.builds(reference_grants.ReferenceGrantTo, group=GROUPS, kind=KINDS, name=st.none() | NAMES)
GRANTS = st.builds(
    ReferenceGrant,
    metadata=st.builds(
        api.ObjectMeta, namespace=NAMESPACES, deletion_timestamp=st.none() | st.just("2026-01-01T00:00:00Z")
    ),
    spec=st.builds(
        reference_grants.ReferenceGrantSpec,
        from_=st.lists(FROM, min_size=1, max_size=3),
        to=st.lists(TO, min_size=1, max_size=3),
    ),
)


def _pairs(grant: ReferenceGrant) -> set[tuple[str | None, ...]]:
    """Everything that a grant allows, one by one."""
    where = grant.metadata.namespace
    return {
        (each.group, each.kind, each.namespace, to.group, to.kind, where, to.name)
        for each in grant.spec.from_
        for to in grant.spec.to
        if grant.metadata.deletion_timestamp is None
    }


@given(REFERENCES, st.lists(GRANTS, max_size=4))
def test_it_is_allowed_within_a_namespace_or_by_one_grant(reference, grants):
    source, target = reference
    pairs = set().union(*map(_pairs, grants))
    ends = (source.group, source.kind, source.namespace, target.group, target.kind, target.namespace)
    allowed = bool(pairs & {(*ends, None), (*ends, target.name)})
    assert reference.is_allowed(grants) == (allowed or source.namespace == target.namespace)


@given(REFERENCES, REFERENCES, st.booleans())
def test_the_manifest_of_a_refusal_allows_the_reference_and_no_other(reference, other, is_installed):
    told = reference.refusal(is_installed=is_installed)
    assert ("install the definitions of the Gateway API" in told) != is_installed
    manifest = yaml.safe_load(told[told.index("apply ") + len("apply ") :])
    grant = msgspec.convert(manifest, ReferenceGrant)
    assert reference.is_allowed([grant])
    same = (other.source[:3], other.target) == (reference.source[:3], reference.target)
    assert other.is_allowed([grant]) == (same or not other.is_across)
