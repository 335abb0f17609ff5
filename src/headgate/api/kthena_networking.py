"""The networking dialect of Kthena, networking.volcano.sh/v1alpha1: ModelRoute and ModelServer.

A ModelRoute sends requests to ModelServers and limits their tokens; a ModelServer selects the Pods that serve
a model, and says how to reach them.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from headgate.api.expressions import DURATION, LONGEST_NAME, MODEL_NAME, Validation, rule
from headgate.api.meta import BY_TYPE, Condition, ObjectMeta, Part, Resource, described

GROUP, VERSION = "networking.volcano.sh", "v1alpha1"


_RE2 = {
    # An expression that does not compile makes the evaluation fail. An API server spends seconds of CPU time
    # on the compilation of some: those with repetitions, Unicode classes or ranges beyond ASCII. So the rule
    # reads { as |, which is valid wherever { is, and leaves long and costly expressions to the webhook.
    "x-kubernetes-validations": [
        rule(
            r"self.size() > 128 || self.matches('[^ -~]|\\\\(p|P|x\\{)')"
            " || ''.matches(self.replace('{', '|')) in [true, false]",
            "must be a regular expression that RE2 takes",
        )
    ]
}

MAX_HEADERS = 16
"""Header conditions of a rule, as in routes of the Gateway API. All expressions of an object that the rule
above compiles cost an API server less than 0.1 s."""


class StringMatch(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[Validation]] = [
        rule(
            "has(self.exact) ? !has(self.prefix) && !has(self.regex) : !has(self.prefix) || !has(self.regex)",
            "only one of exact, prefix and regex may be set",
        )
    ]

    exact: Annotated[str | None, described("The value must be this string.")] = None
    prefix: Annotated[str | None, described("The value must begin with this string.")] = None
    regex: Annotated[
        str | None,
        described(
            "This RE2 expression must be found somewhere in the value; anchor it with ^ and $.",
            maxLength=4096,
            **_RE2,
        ),
    ] = None


class BodyMatch(Part, frozen=True, kw_only=True):
    model: Annotated[
        str | None, described("The `model` of the request must be this model or adapter. Unset: any.")
    ] = None


class ModelMatch(Part, frozen=True, kw_only=True):
    headers: Annotated[
        dict[str, StringMatch],
        described("Request headers and what their values must match. Unset: any.", maxProperties=MAX_HEADERS),
    ] = {}
    uri: Annotated[
        StringMatch | None,
        described("What the path of the request must match, without its query. Unset: any."),
    ] = None
    body: Annotated[BodyMatch | None, described("What the body of the request must say.")] = None


class TargetModel(Part, frozen=True, kw_only=True):
    demanded: ClassVar[tuple[str, ...]] = ("modelServerName",)

    model_server_name: Annotated[
        str, described("Name of a ModelServer in the namespace of the route.", minLength=1)
    ] = ""
    weight: Annotated[
        int,
        Meta(ge=0, le=100),
        described("Share of the rule's traffic, relative to the weights beside it.", format="int32"),
    ] = 100


class Rule(Part, frozen=True, kw_only=True):
    demanded: ClassVar[tuple[str, ...]] = ("targetModels",)

    name: Annotated[str, described("Name of the rule; logs and explanations use it.")] = ""
    model_match: Annotated[
        ModelMatch | None, described("Conditions that must all hold. Unset or empty: every request.")
    ] = None
    target_models: Annotated[
        list[TargetModel],
        Meta(max_length=16),
        described("Where the traffic of the rule goes, by weight.", minItems=1),
    ] = []


class RedisConfig(Part, frozen=True, kw_only=True):
    address: Annotated[str, described("Address of the Redis server, host:port.")]


class GlobalRateLimit(Part, frozen=True, kw_only=True):
    redis: Annotated[RedisConfig | None, described("The Redis in which the count is shared.")] = None


class RateLimit(Part, frozen=True, kw_only=True):
    input_tokens_per_unit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        described("Prompt tokens allowed in each unit of time. Unset: any number.", format="int32"),
    ] = None
    output_tokens_per_unit: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        described("Generated tokens allowed in each unit of time. Unset: any number.", format="int32"),
    ] = None
    unit: Annotated[
        Literal["second", "minute", "hour", "day", "month"],
        described("The unit of time; a month is 30 days."),
    ] = "second"
    global_: Annotated[
        GlobalRateLimit | None,
        described("Share one count among all gateways. Unset: each gateway counts alone."),
    ] = msgspec.field(default=None, name="global")


_ADAPTER = {"minLength": 1, "maxLength": LONGEST_NAME} | MODEL_NAME


class ModelRouteSpec(Part, frozen=True, kw_only=True):
    validations: ClassVar[list[Validation]] = [
        rule(
            "(has(self.modelName) && self.modelName != '')"
            " || (has(self.loraAdapters) && self.loraAdapters.size() > 0)",
            "modelName or loraAdapters must be set",
        ),
        rule(
            "!has(oldSelf.modelName) || oldSelf.modelName == ''"
            " || (has(self.modelName) && self.modelName == oldSelf.modelName)",
            "modelName is immutable",
            at=".modelName",
        ),
    ]

    model_name: Annotated[
        str | None,
        described(
            "The `model` of the requests that this route is for: a base model or any name you like.",
            maxLength=LONGEST_NAME,
            **MODEL_NAME,
        ),
    ] = None
    lora_adapters: Annotated[
        list[
            Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": LONGEST_NAME} | MODEL_NAME)]
        ],
        Meta(max_length=10),
        described("Names of LoRA adapters that this route is for as well."),
    ] = []
    rules: Annotated[
        list[Rule],
        Meta(max_length=16),
        described("Tried in order; the first that matches serves. None: 404."),
    ]
    rate_limit: Annotated[
        RateLimit | None, described("How many tokens the traffic of this route may use. Unset: no limit.")
    ] = None


class ObservedStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[
        list[Condition], described("What Headgate found out about the object, one per type.", **BY_TYPE)
    ] = []
    observed_generation: Annotated[
        int | None, described("The metadata.generation that the status was made from.")
    ] = None


class ModelRoute(Part, frozen=True, kw_only=True):
    """ModelRoute sends the requests for a model name to ModelServers, by rules and weights."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "ModelRoute", "modelroutes")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ModelRouteSpec, described("Which requests, where to, and how much.")]
    status: Annotated[ObservedStatus | None, described("What is observed.")] = None


class PDGroup(Part, frozen=True, kw_only=True):
    demanded: ClassVar[tuple[str, ...]] = ("groupKey", "prefillLabels", "decodeLabels")

    group_key: Annotated[
        str,
        described("Label key whose value tells which prefill and decode Pods belong together.", minLength=1),
    ] = ""
    prefill_labels: Annotated[
        dict[str, str], described("Labels of the Pods that prefill.", minProperties=1)
    ] = {}
    decode_labels: Annotated[
        dict[str, str], described("Labels of the Pods that decode.", minProperties=1)
    ] = {}


class WorkloadSelector(Part, frozen=True, kw_only=True):
    demanded: ClassVar[tuple[str, ...]] = ("matchLabels",)

    match_labels: Annotated[
        dict[str, str],
        described("Labels that every serving Pod in the same namespace has.", minProperties=1),
    ] = {}
    pd_group: Annotated[PDGroup | None, described("Splits the Pods into prefill and decode roles.")] = None


class WorkloadPort(Part, frozen=True, kw_only=True):
    port: Annotated[
        int, Meta(ge=1, le=65535), described("Port that the model server listens on.", format="int32")
    ]
    protocol: Annotated[Literal["http", "https"], described("How the model server is spoken to.")] = "http"


class Retry(Part, frozen=True, kw_only=True):
    attempts: Annotated[
        int | None,
        described("How often a failed request is tried again on another endpoint.", format="int32"),
    ] = None
    retry_interval: Annotated[str, described("How long to wait before that.", **DURATION)] = "100ms"


class TrafficPolicy(Part, frozen=True, kw_only=True):
    timeout: Annotated[
        str | None,
        described(
            "How long an attempt may take until response headers. Unset: the gateway's own limits.",
            **DURATION,
        ),
    ] = None
    retry: Annotated[Retry | None, described("What happens when an attempt fails.")] = None


KVConnector: TypeAlias = Literal["http", "lmcache", "nixl", "mooncake"]
CONNECTORS: tuple[KVConnector, ...] = get_args(KVConnector)


class KVConnectorSpec(Part, frozen=True, kw_only=True):
    type: Annotated[
        KVConnector,
        described("How the KV cache gets from a prefill Pod to a decode Pod."),
    ] = "http"


class ModelServerSpec(Part, frozen=True, kw_only=True):
    model: Annotated[
        Annotated[str, Meta(max_length=LONGEST_NAME)] | None,
        described(
            "Name of the model that the Pods serve; replaces the `model` of requests. Unset: it stays.",
            **MODEL_NAME,
        ),
    ] = None
    inference_engine: Annotated[
        Literal["vLLM", "SGLang"],
        described("The engine that the Pods run; decides metric names and protocols."),
    ]
    workload_selector: Annotated[WorkloadSelector, described("Which Pods serve.")]
    workload_port: Annotated[WorkloadPort | None, described("Where the Pods listen.")] = None
    traffic_policy: Annotated[TrafficPolicy | None, described("Timeouts and retries towards the Pods.")] = (
        None
    )
    kv_connector: Annotated[
        KVConnectorSpec | None, described("How prefill and decode Pods exchange the KV cache.")
    ] = None


class ModelServer(Part, frozen=True, kw_only=True):
    """ModelServer is a pool of Pods that serve one model, and how they are reached."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "ModelServer", "modelservers")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[ModelServerSpec, described("Which Pods, and how they are reached.")]
    status: Annotated[ObservedStatus | None, described("What is observed.")] = None
