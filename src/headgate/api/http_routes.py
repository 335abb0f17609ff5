"""HTTPRoute of the Gateway API: which requests of a Gateway go where, and what changes on their way.

Types of matches and filters are text here: a cluster's definition may know more than Headgate, and a route
that uses them must be readable, so that its status can say what is not supported.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta

from headgate.api.gateways import HOSTNAME, SECTION_NAME, VERSION, PortNumber
from headgate.api.meta import (
    BY_TYPE,
    CONTROLLER_NAME,
    KIND,
    NAMESPACE,
    OBJECT_NAME,
    Condition,
    ObjectMeta,
    Part,
    Resource,
    described,
)
from headgate.api.meta import GROUP as GROUP_NAME
from headgate.api.reference_grants import GROUP

EXACT, PATH_PREFIX, REGULAR_EXPRESSION = "Exact", "PathPrefix", "RegularExpression"

REQUEST_HEADERS, RESPONSE_HEADERS = "RequestHeaderModifier", "ResponseHeaderModifier"
REDIRECT, REWRITE, MIRROR = "RequestRedirect", "URLRewrite", "RequestMirror"
FULL_PATH, PREFIX_MATCH = "ReplaceFullPath", "ReplacePrefixMatch"

HEADER_NAME: Final[dict[str, Any]] = {
    "minLength": 1,
    "maxLength": 256,
    "pattern": r"^[A-Za-z0-9!#$%&'*+\-.^_\x60|~]+$",
}
_HEADER_VALUE: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 4096}
_PRECISE_HOSTNAME: Final = {**HOSTNAME, "pattern": HOSTNAME["pattern"].replace(r"(\*\.)?", "")}
DURATION: Final[dict[str, Any]] = {"pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"}
_ATOMIC: Final = {"x-kubernetes-list-type": "atomic"}
_BY_NAME: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


def _one_of(*values: str) -> dict[str, Any]:
    return {"pattern": f"^({'|'.join(values)})$"}


def _rule(rule: str, message: str) -> dict[str, str]:
    return {"rule": rule, "message": message}


class ParentReference(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("API group of the parent.", **GROUP_NAME)] = GROUP
    kind: Annotated[str, described("Kind of the parent.", **KIND)] = "Gateway"
    namespace: Annotated[
        str | None, described("Namespace of the parent. Unset: that of the route.", **NAMESPACE)
    ] = None
    name: Annotated[str, described("Name of the parent.", **OBJECT_NAME)]
    section_name: Annotated[
        str | None, described("Name of one listener. Unset: all of them.", **SECTION_NAME)
    ] = None
    port: Annotated[
        PortNumber | None, described("Port of the listeners. Unset: every port.", format="int32")
    ] = None


_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F", "#")


def _path_rules() -> list[dict[str, str]]:
    def literal(what: str, test: str) -> dict[str, str]:
        return _rule(
            f"(self.type in ['Exact','PathPrefix']) ? {test} : true",
            f"{what} when type one of ['Exact', 'PathPrefix']",
        )

    parts = [literal(f"must not contain '{part}'", f"!self.value.contains('{part}')") for part in _PARTS]
    ends = [literal(f"must not end with '{end}'", f"!self.value.endsWith('{end}')") for end in ("/..", "/.")]
    return [
        literal("value must be an absolute path and start with '/'", "self.value.startsWith('/')"),
        *parts,
        *ends,
        literal(
            "must only contain valid characters",
            r"self.value.matches(r'''^(?:[-A-Za-z0-9/._~!$&\'()*+,;=:@]|[%][0-9a-fA-F]{2})+$''')",
        ),
    ]


class PathMatch(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[dict[str, str]]] = _path_rules()

    type: Annotated[
        str,
        described(
            "How the path is compared; a regular expression must match all of it.",
            **_one_of(EXACT, PATH_PREFIX, REGULAR_EXPRESSION),
        ),
    ] = PATH_PREFIX
    value: Annotated[str, described("What the path is compared with.", maxLength=1024)] = "/"


class HeaderMatch(Part, frozen=True, kw_only=True):
    type: Annotated[str, described("How the value is compared.", **_one_of(EXACT, REGULAR_EXPRESSION))] = (
        EXACT
    )
    name: Annotated[str, described("Name of the header, in any case.", **HEADER_NAME)]
    value: Annotated[str, described("What the value is compared with.", **_HEADER_VALUE)]


class QueryParamMatch(Part, frozen=True, kw_only=True):
    type: Annotated[str, described("How the value is compared.", **_one_of(EXACT, REGULAR_EXPRESSION))] = (
        EXACT
    )
    name: Annotated[str, described("Name of the query parameter.", **HEADER_NAME)]
    value: Annotated[str, described("What the value is compared with.", minLength=1, maxLength=1024)]


_SLASH: Final[dict[str, Any]] = {"type": PATH_PREFIX, "value": "/"}


class RouteMatch(Part, frozen=True, kw_only=True):
    path: Annotated[PathMatch, described("The path of the request.", default=_SLASH)] = PathMatch()
    headers: Annotated[
        list[HeaderMatch],
        Meta(max_length=16),
        described("Headers that the request must all have.", **_BY_NAME),
    ] = []
    query_params: Annotated[
        list[QueryParamMatch],
        Meta(max_length=16),
        described("Query parameters that the request must all have.", **_BY_NAME),
    ] = []
    method: Annotated[
        str | None,
        described(
            "The method of the request. Unset: any.",
            **_one_of("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"),
        ),
    ] = None


class Header(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the header.", **HEADER_NAME)]
    value: Annotated[str, described("Value of the header.", **_HEADER_VALUE)]


class HeaderFilter(Part, frozen=True, kw_only=True):
    set: Annotated[
        list[Header], Meta(max_length=16), described("Headers to replace or add.", **_BY_NAME)
    ] = []
    add: Annotated[
        list[Header],
        Meta(max_length=16),
        described("Headers to add to those of the same name.", **_BY_NAME),
    ] = []
    remove: Annotated[
        list[str],
        Meta(max_length=16),
        described("Names of headers to remove.", **{"x-kubernetes-list-type": "set"}),
    ] = []


class PathModifier(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[dict[str, str]]] = [
        _rule(
            "self.type == 'ReplaceFullPath' ? has(self.replaceFullPath) : true",
            "replaceFullPath must be specified when type is set to 'ReplaceFullPath'",
        ),
        _rule(
            "has(self.replaceFullPath) ? self.type == 'ReplaceFullPath' : true",
            "type must be 'ReplaceFullPath' when replaceFullPath is set",
        ),
        _rule(
            "self.type == 'ReplacePrefixMatch' ? has(self.replacePrefixMatch) : true",
            "replacePrefixMatch must be specified when type is set to 'ReplacePrefixMatch'",
        ),
        _rule(
            "has(self.replacePrefixMatch) ? self.type == 'ReplacePrefixMatch' : true",
            "type must be 'ReplacePrefixMatch' when replacePrefixMatch is set",
        ),
    ]

    type: Annotated[str, described("What is replaced.", **_one_of(FULL_PATH, PREFIX_MATCH))]
    replace_full_path: Annotated[str | None, described("The whole path.", maxLength=1024)] = None
    replace_prefix_match: Annotated[
        str | None, described("What stands for the matched prefix.", maxLength=1024)
    ] = None


class RequestRedirect(Part, frozen=True, kw_only=True):
    scheme: Annotated[
        str | None,
        described("Scheme of the location. Unset: that of the request.", **_one_of("http", "https")),
    ] = None
    hostname: Annotated[
        str | None, described("Host of the location. Unset: that of the request.", **_PRECISE_HOSTNAME)
    ] = None
    path: Annotated[PathModifier | None, described("Path of the location. Unset: as requested.")] = None
    port: Annotated[
        PortNumber | None,
        described("Port of the location. Unset: that of the scheme, or of the listener.", format="int32"),
    ] = None
    status_code: Annotated[int, Meta(ge=301, le=308), described("Status of the response.")] = 302


class UrlRewrite(Part, frozen=True, kw_only=True):
    hostname: Annotated[
        str | None, described("The host that the backend is asked for.", **_PRECISE_HOSTNAME)
    ] = None
    path: Annotated[PathModifier | None, described("The path that the backend is asked for.")] = None


class BackendReference(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[dict[str, str]]] = [
        _rule(
            "(size(self.group) == 0 && self.kind == 'Service') ? has(self.port) : true",
            "Must have port for Service reference",
        )
    ]

    group: Annotated[
        str, described("API group of the backend; empty for the core group.", default="", **GROUP_NAME)
    ] = ""
    kind: Annotated[str, described("Service, or InferencePool.", **KIND)] = "Service"
    name: Annotated[str, described("Name of the backend.", **OBJECT_NAME)]
    namespace: Annotated[
        str | None, described("Namespace of the backend. Unset: that of the route.", **NAMESPACE)
    ] = None
    port: Annotated[
        PortNumber | None,
        described("Port of the Service. Of an InferencePool, it is ignored.", format="int32"),
    ] = None


class Fraction(Part, frozen=True, kw_only=True):
    numerator: Annotated[int, Meta(ge=0), described("Requests that are mirrored ...", format="int32")]
    denominator: Annotated[int, Meta(ge=1), described("... of so many.", format="int32")] = 100


class RequestMirror(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[dict[str, str]]] = [
        _rule(
            "!(has(self.percent) && has(self.fraction))",
            "Only one of percent or fraction may be specified in HTTPRequestMirrorFilter",
        )
    ]

    backend_ref: Annotated[BackendReference, described("Who gets a copy of each request.")]
    percent: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | None,
        described("Percentage of requests. Unset: all.", format="int32"),
    ] = None
    fraction: Annotated[Fraction | None, described("Share of requests. Unset: all.")] = None


class LocalReference(Part, frozen=True, kw_only=True):
    group: Annotated[str, described("API group.", **GROUP_NAME)]
    kind: Annotated[str, described("Kind.", **KIND)]
    name: Annotated[str, described("Name.", **OBJECT_NAME)]


class Filter(Part, frozen=True, kw_only=True):
    type: Annotated[str, described("What the filter does.", minLength=1, maxLength=253)]
    request_header_modifier: Annotated[
        HeaderFilter | None, described("Changes of the request's headers.")
    ] = None
    response_header_modifier: Annotated[
        HeaderFilter | None, described("Changes of the response's headers.")
    ] = None
    request_redirect: Annotated[RequestRedirect | None, described("A redirect as the response.")] = None
    url_rewrite: Annotated[UrlRewrite | None, described("Changes of host and path.")] = None
    request_mirror: Annotated[RequestMirror | None, described("A copy of the request to others.")] = None
    extension_ref: Annotated[
        LocalReference | None, described("A filter of an implementation; Headgate has none.")
    ] = None


class BackendRef(BackendReference, frozen=True, kw_only=True):
    weight: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)],
        described("Share of the requests, relative to the other backends.", format="int32"),
    ] = 1
    filters: Annotated[
        list[Filter],
        Meta(max_length=16),
        described("What changes for requests to this backend.", **_ATOMIC),
    ] = []


class Timeouts(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[dict[str, str]]] = [
        _rule(
            "!(has(self.request) && has(self.backendRequest) && duration(self.request) != duration('0s') && "
            "duration(self.backendRequest) > duration(self.request))",
            "backendRequest timeout cannot be longer than request timeout",
        )
    ]

    request: Annotated[
        str | None, described("The longest that a request may take. 0s: no limit.", **DURATION)
    ] = None
    backend_request: Annotated[
        str | None, described("The longest that one attempt may take. 0s: no limit.", **DURATION)
    ] = None


def _prefix_rule(filters: str, field_name: str, told: str) -> dict[str, str]:
    test = (
        f"has(f.{field_name}) && has(f.{field_name}.path) && f.{field_name}.path.type == 'ReplacePrefixMatch'"
    )
    return _rule(
        f"({filters} && self.filters.exists_one(f, {test})) ? (size(self.matches) == 1 && "
        "has(self.matches[0].path) && self.matches[0].path.type == 'PathPrefix') : true",
        f"When using {told} filter with path.replacePrefixMatch, exactly one PathPrefix match must be "
        "specified",
    )


_FILTER_RULES: Final = [
    _rule(
        "!(self.exists(f, f.type == 'RequestRedirect') && self.exists(f, f.type == 'URLRewrite'))",
        "May specify either httpRouteFilterRequestRedirect or httpRouteFilterRequestRewrite, but not both",
    ),
    *(
        _rule(f"self.filter(f, f.type == '{each}').size() <= 1", f"{each} filter cannot be repeated")
        for each in (REQUEST_HEADERS, RESPONSE_HEADERS, REDIRECT, REWRITE)
    ),
]


class RouteRule(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[dict[str, str]]] = [
        _rule(
            "(has(self.backendRefs) && size(self.backendRefs) > 0) ? "
            "(!has(self.filters) || self.filters.all(f, !has(f.requestRedirect))): true",
            "RequestRedirect filter must not be used together with backendRefs",
        ),
        _prefix_rule("has(self.filters)", "requestRedirect", REDIRECT),
        _prefix_rule("has(self.filters)", "urlRewrite", REWRITE),
    ]

    name: Annotated[str | None, described("Name of the rule.", **SECTION_NAME)] = None
    matches: Annotated[
        list[RouteMatch],
        Meta(max_length=64),
        described(
            "Requests of the rule: those that one of these matches.", default=[{"path": _SLASH}], **_ATOMIC
        ),
    ] = []
    filters: Annotated[
        list[Filter],
        Meta(max_length=16),
        described(
            "What changes on the way.",
            **_ATOMIC,
            **{"x-kubernetes-validations": _FILTER_RULES},
        ),
    ] = []
    backend_refs: Annotated[
        list[BackendRef], Meta(max_length=16), described("Where requests go, by weight.", **_ATOMIC)
    ] = []
    timeouts: Annotated[Timeouts | None, described("How long requests may take.")] = None


class HttpRouteSpec(Part, frozen=True, kw_only=True):
    parent_refs: Annotated[
        list[ParentReference],
        Meta(max_length=32),
        described("Gateways, or listeners of them, that requests come in by.", **_ATOMIC),
    ] = []
    hostnames: Annotated[
        list[Annotated[str, described("A host name.", **HOSTNAME)]],
        Meta(max_length=16),
        described("Hosts of the requests. Unset: those of the listener.", **_ATOMIC),
    ] = []
    rules: Annotated[
        list[RouteRule],
        described(
            "Which requests go where.",
            minItems=1,
            maxItems=16,
            default=[{"matches": [{"path": _SLASH}]}],
            **_ATOMIC,
        ),
    ] = []


class RouteParentStatus(Part, frozen=True, kw_only=True):
    parent_ref: Annotated[ParentReference, described("The parent, as in the route.")]
    controller_name: Annotated[str, described("The controller that wrote this.", **CONTROLLER_NAME)]
    conditions: Annotated[
        list[Condition], Meta(max_length=8), described("Accepted, ResolvedRefs.", **BY_TYPE)
    ] = []


class HttpRouteStatus(Part, frozen=True, kw_only=True):
    parents: Annotated[
        list[RouteParentStatus],
        Meta(max_length=32),
        described("One entry for each parent and controller.", **_ATOMIC),
    ]


class HttpRoute(Part, frozen=True, kw_only=True):
    """HTTPRoute routes the requests of Gateways by host, path, headers, query and method."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "HTTPRoute", "httproutes")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[HttpRouteSpec, described("Which requests go where.")]
    status: Annotated[HttpRouteStatus | None, described("What is observed.")] = None
