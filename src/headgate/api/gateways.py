"""GatewayClass and Gateway of the Gateway API: where requests come in.

The kinds belong to the project Gateway API (v1.6, standard channel); these types have the fields that
Headgate uses. In a cluster, the project's own definitions are installed, with all fields.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, field

from headgate.api.meta import (
    BY_TYPE,
    CONTROLLER_NAME,
    KIND,
    NAMESPACE,
    OBJECT_NAME,
    Condition,
    LabelSelector,
    ObjectMeta,
    Part,
    Resource,
    described,
)
from headgate.api.meta import GROUP as GROUP_NAME
from headgate.api.reference_grants import GROUP

VERSION = "v1"

CONTROLLER: Final = "headgate.dev/gateway-controller"
"""The controllerName of GatewayClasses that Headgate implements, unless it is told another one."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST = rf"{_LABEL}(\.{_LABEL})*"
HOSTNAME: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 253, "pattern": rf"^(\*\.)?{_HOST}$"}
"""A host name, whose first label may be `*`."""
SECTION_NAME: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 253, "pattern": rf"^{_HOST}$"}
"""The name of a listener or rule."""
_ATOMIC: Final = {"x-kubernetes-list-type": "atomic"}
_BY_NAME: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}

PortNumber = Annotated[int, Meta(ge=1, le=65535)]


def _rule(rule: str, message: str) -> dict[str, str]:
    return {"rule": rule, "message": message}


class ParametersReference(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("API group of the parameters.", **GROUP_NAME)]
    kind: Annotated[str, described("Kind of the parameters.", **KIND)]
    name: Annotated[str, described("Name of the parameters.", **OBJECT_NAME)]
    namespace: Annotated[str | None, described("Namespace of the parameters.", **NAMESPACE)] = None


class GatewayClassSpec(Part, frozen=True, kw_only=True):
    controller_name: Annotated[
        str,
        described(
            "The controller of Gateways of this class, domain/path.",
            **CONTROLLER_NAME,
            **{"x-kubernetes-validations": [_rule("self == oldSelf", "Value is immutable")]},
        ),
    ]
    parameters_ref: Annotated[
        ParametersReference | None, described("Configuration of the class; Headgate has none.")
    ] = None
    description: Annotated[str, described("What the class is for.", maxLength=64)] = ""


class SupportedFeature(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the feature.")]


class GatewayClassStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[
        list[Condition],
        Meta(max_length=8),
        described("What the controller found out: Accepted, SupportedVersion.", **BY_TYPE),
    ] = []
    supported_features: Annotated[
        list[SupportedFeature],
        Meta(max_length=64),
        described("Features of the Gateway API that the class has.", **_BY_NAME),
    ] = []


class GatewayClass(Part, frozen=True, kw_only=True):
    """GatewayClass says which controller implements Gateways of a class."""

    resource: ClassVar[Resource] = Resource(
        GROUP, VERSION, "GatewayClass", "gatewayclasses", namespaced=False
    )

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[GatewayClassSpec, described("Who implements the class.")]
    status: Annotated[GatewayClassStatus | None, described("What is observed.")] = None


class SecretObjectReference(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("API group; empty for the core group.", default="", **GROUP_NAME)] = ""
    kind: Annotated[str, described("Kind of the object.", **KIND)] = "Secret"
    name: Annotated[str, described("Name of the object.", **OBJECT_NAME)]
    namespace: Annotated[
        str | None, described("Namespace of the object. Unset: that of the Gateway.", **NAMESPACE)
    ] = None


class ListenerTls(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[dict[str, str]]] = [
        _rule(
            "self.mode == 'Terminate' ? size(self.certificateRefs) > 0 || size(self.options) > 0 : true",
            "certificateRefs or options must be specified when mode is Terminate",
        )
    ]

    mode: Annotated[
        Literal["Terminate", "Passthrough"],
        described("Whether TLS ends at the Gateway. Headgate supports Terminate."),
    ] = "Terminate"
    certificate_refs: Annotated[
        list[SecretObjectReference],
        Meta(max_length=64),
        described("Secrets of type kubernetes.io/tls, with the certificates to serve.", **_ATOMIC),
    ] = []
    options: Annotated[
        dict[str, Annotated[str, described("Value of the option.", maxLength=4096)]],
        Meta(max_length=16),
        described("Options of implementations; Headgate has none."),
    ] = {}


class RouteGroupKind(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("API group of the routes.", **GROUP_NAME)] = GROUP
    kind: Annotated[str, described("Kind of the routes.", **KIND)]


class RouteNamespaces(Part, frozen=True, kw_only=True):
    from_: Annotated[
        Literal["All", "Selector", "Same"], described("Which namespaces routes may come from.")
    ] = field(default="Same", name="from")
    selector: Annotated[LabelSelector | None, described("Labels of the namespaces, for Selector.")] = None


_ALLOWED: Final[dict[str, Any]] = {"namespaces": {"from": "Same"}}


class AllowedRoutes(Part, frozen=True, kw_only=True):
    namespaces: Annotated[
        RouteNamespaces, described("Namespaces that routes may come from.", default={"from": "Same"})
    ] = RouteNamespaces()
    kinds: Annotated[
        list[RouteGroupKind],
        Meta(max_length=8),
        described("Kinds of routes. Unset: those of the protocol.", **_ATOMIC),
    ] = []


class Listener(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the listener, unique in the Gateway.", **SECTION_NAME)]
    hostname: Annotated[str | None, described("Host name of requests. Unset: any.", **HOSTNAME)] = None
    port: Annotated[PortNumber, described("Port that clients connect to.", format="int32")]
    protocol: Annotated[
        str,
        described(
            "HTTP or HTTPS; Headgate supports no other.",
            minLength=1,
            maxLength=255,
            pattern=rf"^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$|{_HOST}\/[A-Za-z0-9]+$",
        ),
    ]
    tls: Annotated[ListenerTls | None, described("TLS, for HTTPS.")] = None
    allowed_routes: Annotated[
        AllowedRoutes, described("Which routes may attach to the listener.", default=_ALLOWED)
    ] = AllowedRoutes()


class GatewayAddress(Part, frozen=True, kw_only=True):
    type: Annotated[
        str, described("IPAddress, Hostname, or a type of the implementation.", minLength=1, maxLength=253)
    ] = "IPAddress"
    value: Annotated[str, described("The address.", maxLength=253)] = ""


_LISTENERS: Final = [
    _rule(
        "self.all(l, l.protocol in ['HTTP', 'TCP', 'UDP'] ? !has(l.tls) : true)",
        "tls must not be specified for protocols ['HTTP', 'TCP', 'UDP']",
    ),
    _rule(
        "self.all(l, (l.protocol == 'HTTPS' && has(l.tls)) ? l.tls.mode == 'Terminate' : true)",
        "tls mode must be Terminate for protocol HTTPS",
    ),
    _rule(
        "self.all(l, l.protocol in ['TCP', 'UDP'] ? !has(l.hostname) : true)",
        "hostname must not be specified for protocols ['TCP', 'UDP']",
    ),
    _rule(
        "self.all(l1, self.exists_one(l2, l1.port == l2.port && l1.protocol == l2.protocol && "
        "(has(l1.hostname) && has(l2.hostname) ? l1.hostname == l2.hostname "
        ": !has(l1.hostname) && !has(l2.hostname))))",
        "Combination of port, protocol and hostname must be unique for each listener",
    ),
]


class GatewayInfrastructure(Part, frozen=True, kw_only=True):
    labels: Annotated[
        dict[str, str], Meta(max_length=8), described("Labels for what is created for the Gateway.")
    ] = {}
    annotations: Annotated[
        dict[str, str], Meta(max_length=8), described("Annotations for what is created for the Gateway.")
    ] = {}
    parameters_ref: Annotated[
        ParametersReference | None, described("Configuration of the Gateway; Headgate has none.")
    ] = None


class GatewaySpec(Part, frozen=True, kw_only=True):
    gateway_class_name: Annotated[str, described("Name of the GatewayClass.", **OBJECT_NAME)]
    listeners: Annotated[
        list[Listener],
        Meta(min_length=1, max_length=64),
        described(
            "Ports and host names that requests come in by.",
            **_BY_NAME,
            **{"x-kubernetes-validations": _LISTENERS},
        ),
    ]
    addresses: Annotated[
        list[GatewayAddress],
        Meta(max_length=16),
        described("Addresses that the Gateway is to have. Unset: those of Headgate's gateways.", **_ATOMIC),
    ] = []
    infrastructure: Annotated[
        GatewayInfrastructure | None, described("Attributes of what is created for the Gateway.")
    ] = None


class ListenerStatus(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the listener.", **SECTION_NAME)]
    supported_kinds: Annotated[
        list[RouteGroupKind],
        Meta(max_length=8),
        described("Kinds of routes that may attach to it.", **_ATOMIC),
    ] = []
    attached_routes: Annotated[int, described("How many routes are attached.", format="int32")]
    conditions: Annotated[
        list[Condition],
        Meta(max_length=8),
        described("Accepted, Conflicted, Programmed, ResolvedRefs.", **BY_TYPE),
    ]


class GatewayStatus(Part, frozen=True, kw_only=True):
    addresses: Annotated[
        list[GatewayAddress], Meta(max_length=16), described("Addresses of the Gateway.", **_ATOMIC)
    ] = []
    conditions: Annotated[
        list[Condition], Meta(max_length=8), described("Accepted, Programmed.", **BY_TYPE)
    ] = []
    listeners: Annotated[
        list[ListenerStatus], Meta(max_length=64), described("One entry for each listener.", **_BY_NAME)
    ] = []


class Gateway(Part, frozen=True, kw_only=True):
    """Gateway is a set of listeners at which requests come in."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "Gateway", "gateways")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[GatewaySpec, described("Where requests come in.")]
    status: Annotated[GatewayStatus | None, described("What is observed.")] = None
