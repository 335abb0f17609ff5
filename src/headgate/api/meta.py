"""The parts that all Kubernetes objects share: struct conventions, metadata and conditions.

An object is a frozen struct with camelCase wire names; fields with their default value are omitted from the
encoding, and unknown fields are ignored in decoding.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self

import msgspec
from msgspec import Meta


# Location of a kind on a Kubernetes API server: its group, version, plural and URL paths.
class Resource(msgspec.Struct, frozen=True):
    """The address of one kind: `Resource("apps", "v1", "Deployment", "deployments")`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The value of an object's `apiVersion`: "v1" for the core group, else "group/version"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """The plural with its group, as `kubectl` and CRD names write it: "deployments.apps"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of the collection, of one object, or of its subresource.

        For a namespaced resource without a namespace, it is the path for all namespaces.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
        if subresource is not None:
            parts.append(subresource)
        return "/".join(parts)


class Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of all parts of objects."""

    validations: ClassVar[list[dict[str, str]]] = []
    """CEL rules of the type, in the form of `x-kubernetes-validations`."""

    demanded: ClassVar[tuple[str, ...]] = ()
    """Fields that have a default here, for decoding, but that an API server requires in Headgate's kinds."""


class ObjectKey(NamedTuple):
    """Name of an object of a known kind; sorts by namespace, then name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ObjectRef(NamedTuple):
    """Name of an object of any kind, as objects of two kinds may share a name."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


def described(text: str, **schema: Any) -> Meta:
    """The description of a field, with extra keys of its OpenAPI schema."""
    return Meta(description=text, extra_json_schema=schema or None)


BY_TYPE = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
"""Schema of a list of conditions: one per type, so that writers of different types do not conflict."""


class OwnerReference(Part, frozen=True, kw_only=True):
    api_version: Annotated[str, described("Version of the owner's API.")]
    kind: Annotated[str, described("Kind of the owner.")]
    name: Annotated[str, described("Name of the owner.")]
    uid: Annotated[str, described("UID of the owner; another object of the same name is not the owner.")]
    controller: Annotated[bool | None, described("True on the one owner that manages this object.")] = None
    block_owner_deletion: Annotated[
        bool | None, described("Whether a foreground deletion of the owner waits for this object.")
    ] = None


class ObjectMeta(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the object, unique among its kind in a namespace.")] = ""
    generate_name: Annotated[str, described("Prefix from which the server makes a unique name.")] = ""
    namespace: Annotated[str, described("Namespace of the object.")] = ""
    uid: Annotated[str, described("Identity of this object in time and space, given by the server.")] = ""
    resource_version: Annotated[str, described("Opaque version of the stored object.")] = ""
    generation: Annotated[int, described("Counts the changes of the desired state.")] = 0
    creation_timestamp: Annotated[str, described("When the object was created, RFC 3339 in UTC.")] = ""
    deletion_timestamp: Annotated[
        str | None, described("When the object will be, or was asked to be, deleted.")
    ] = None
    deletion_grace_period_seconds: Annotated[
        int | None, described("Seconds that the object has to end in good order once deletion was asked for.")
    ] = None
    labels: Annotated[dict[str, str], described("Keys and values by which selectors find the object.")] = {}
    annotations: Annotated[dict[str, str], described("Notes that tools keep on the object.")] = {}
    owner_references: Annotated[
        list[OwnerReference], described("Objects without which this one has no reason to exist.")
    ] = []
    finalizers: Annotated[list[str], described("Work that must be done before the object may go.")] = []

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.name)

    @property
    def age_order(self) -> tuple[str, str, str]:
        """Sorts the oldest object first, ties broken by namespace and name."""
        return (self.creation_timestamp, self.namespace, self.name)


class LabelSelectorRequirement(Part, frozen=True, kw_only=True):
    key: Annotated[str, described("Label key that the requirement is about.")]
    operator: Annotated[
        Literal["In", "NotIn", "Exists", "DoesNotExist"], described("How the label relates to the values.")
    ]
    values: Annotated[list[str], described("Values for In and NotIn; empty for the others.")] = []


class LabelSelector(Part, frozen=True, kw_only=True):
    match_labels: Annotated[
        dict[str, str], described("Labels that must all be there with these values.")
    ] = {}
    match_expressions: Annotated[
        list[LabelSelectorRequirement], described("Requirements that must all hold, besides matchLabels.")
    ] = []

    def matches(self, labels: dict[str, str]) -> bool:
        """Whether an object with these labels is selected. An empty selector selects everything."""
        wanted = self.match_labels.items() <= labels.items()
        return wanted and all(_holds(requirement, labels) for requirement in self.match_expressions)


def _holds(requirement: LabelSelectorRequirement, labels: dict[str, str]) -> bool:
    match requirement.operator:
        case "Exists":
            return requirement.key in labels
        case "DoesNotExist":
            return requirement.key not in labels
        case "In":
            return labels.get(requirement.key) in requirement.values
        case "NotIn":
            return labels.get(requirement.key) not in requirement.values


_LABEL_PREFIX = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"


class Condition(Part, frozen=True, kw_only=True):
    """One observation of an object's state (meta/v1 Condition).

    Only `type` and `status` are needed to decode one, because the conditions of Pods have no more; in our own
    kinds an API server demands all of them.
    """

    demanded: ClassVar[tuple[str, ...]] = ("lastTransitionTime", "message", "reason")

    type: Annotated[
        str,
        described(
            "What the condition says, in CamelCase.",
            maxLength=316,
            pattern=f"^{_LABEL_PREFIX}(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    status: Annotated[Literal["True", "False", "Unknown"], described("Whether it holds.")]
    reason: Annotated[
        str,
        described(
            "One CamelCase word for the cause of the last change.",
            minLength=1,
            maxLength=1024,
            pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
    ] = ""
    message: Annotated[str, described("The same for a person, with the names involved.", maxLength=32768)] = (
        ""
    )
    observed_generation: Annotated[
        int, described("The metadata.generation that the condition was made from.", minimum=0)
    ] = 0
    last_transition_time: Annotated[
        str | None, described("When the status last changed.", format="date-time")
    ] = None

    def after(self, old: Condition | None, now: str) -> Self:
        """The condition with its time, given the one before it: the time changes only with the status."""
        kept = old.last_transition_time if old is not None and old.status == self.status else None
        return msgspec.structs.replace(self, last_transition_time=kept or now)


# Schemas of names, kinds, groups and labels, for references between objects.
#
# They are those of the Gateway API, which all kinds of the inference extension share. The limits are for the
# API server; decoding does not repeat them.
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"

GROUP: Final[dict[str, Any]] = {"maxLength": 253, "pattern": rf"^$|^{_DNS_LABEL}(\.{_DNS_LABEL})*$"}
"""An API group; the empty one is the core group."""

KIND: Final[dict[str, Any]] = {
    "minLength": 1,
    "maxLength": 63,
    "pattern": "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$",
}
"""A kind, such as Service."""

OBJECT_NAME: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 253}
"""The name of an object of any kind."""

NAMESPACE: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 63, "pattern": f"^{_DNS_LABEL}$"}
"""The name of a namespace."""

CONTROLLER_NAME: Final[dict[str, Any]] = {
    "minLength": 1,
    "maxLength": 253,
    "pattern": rf"^{_DNS_LABEL}(\.{_DNS_LABEL})*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$",
}
"""A controller as a domain and a path: "headgate.dev/gateway"."""

LABEL_VALUE: Final[dict[str, Any]] = {
    "minLength": 0,
    "maxLength": 63,
    "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
}
"""The value of a label; it may be empty."""

LABEL_KEYS: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        {"rule": "self.all(key, size(key) <= 253)", "message": "a label key has at most 253 characters"},
        {
            "rule": "self.all(key, key.matches('^(.*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",
            "message": "the name in a label key has 1 to 63 letters, digits, '-', '_' or '.', and begins and "
            "ends with a letter or digit",
        },
        {
            "rule": r"self.all(key, key.matches("
            r"'^([a-z0-9](-*[a-z0-9])*(\\.[a-z0-9](-*[a-z0-9])*)*/)?[^/]*$'))",
            "message": "what stands before '/' in a label key must be a DNS name in lower case",
        },
    ]
}
"""A map whose keys are label keys. Structural schemas cannot describe keys, so these are rules.

There are three short ones, because an API server estimates the cost of each for as many keys as fit into a
request, and rejects a definition with a rule that could cost too much.
"""
