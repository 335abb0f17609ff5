"""The checks of the ValidatingAdmissionPolicies in CEL: `object` is the new object, with its defaults.

Names are those of `admission.enforcement`. Messages are those of the rules in `api/admission`, but
without the index of an item in a list, which CEL does not give.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headgate.api.kthena_networking import CONNECTORS
from headgate.api.marks import KV_CONNECTOR, MODELS, SERVED_MODEL
from headgate.api.signal_names import METRICS, PREFIX

__all__ = ["CHECKS", "VARIABLES", "Check"]


class Check(NamedTuple):
    """One validation of a policy."""

    name: str
    holds: str
    """False for an object that breaks the rule."""
    message: str
    told: str = ""
    """An expression for the message, if it has values."""
    is_error: bool = False


_LIMIT = "!has(object.spec.rateLimit)"
_ROUTE = (
    Check(
        "no-rules",
        "object.spec.rules.size() > 0",
        "spec.rules: is empty: every request for this route is answered with 404",
    ),
    Check(
        "weights-zero",
        "object.spec.rules.all(r, r.targetModels.exists(t, t.weight != 0))",
        "spec.rules[].targetModels: every weight is 0: requests that match this rule go to the next route for"
        " the model, if any",
    ),
    Check(
        "limits-nothing",
        f"{_LIMIT} || has(object.spec.rateLimit.inputTokensPerUnit)"
        " || has(object.spec.rateLimit.outputTokensPerUnit)",
        "spec.rateLimit: limits nothing: set inputTokensPerUnit or outputTokensPerUnit",
    ),
    Check(
        "global-alone",
        f"{_LIMIT} || !has(object.spec.rateLimit.global) || has(object.spec.rateLimit.global.redis)",
        "spec.rateLimit.global: has no effect without redis.address: each gateway counts for itself",
    ),
    Check(
        "limit-small",
        f"{_LIMIT} || !has(object.spec.rateLimit.inputTokensPerUnit)"
        " || object.spec.rateLimit.inputTokensPerUnit >= 100",
        "spec.rateLimit.inputTokensPerUnit: is less than most prompts have",
        "'spec.rateLimit.inputTokensPerUnit: is less than most prompts have: one of more than %d tokens is"
        " always refused'.format([object.spec.rateLimit.inputTokensPerUnit])",
    ),
    Check(
        "redis-address",
        f"{_LIMIT} || !has(object.spec.rateLimit.global) || !has(object.spec.rateLimit.global.redis)"
        r" || object.spec.rateLimit.global.redis.address.matches("
        r"'^(\\[[^\\]\\s]+\\]|[^:\\s\\[\\]]+):[0-9]{1,5}$')",
        "spec.rateLimit.global.redis.address: is not host:port",
        '\'spec.rateLimit.global.redis.address: "%s" is not host:port, as in "redis.default.svc:6379"\''
        ".format([object.spec.rateLimit.global.redis.address])",
    ),
)

_TRAFFIC = "!has(object.spec.trafficPolicy)"
_RETRY = f"{_TRAFFIC} || !has(object.spec.trafficPolicy.retry)"
_SERVER = (
    Check(
        "connector-alone",
        "!has(object.spec.kvConnector) || has(object.spec.workloadSelector.pdGroup)",
        "spec.kvConnector: has no effect without workloadSelector.pdGroup: no KV cache is handed over",
    ),
    Check(
        "timeout-zero",
        f"{_TRAFFIC} || !has(object.spec.trafficPolicy.timeout)"
        " || duration(object.spec.trafficPolicy.timeout) > duration('0s')",
        "spec.trafficPolicy.timeout: sets no limit: a timeout must be longer than 0s",
        "'spec.trafficPolicy.timeout: \"%s\" sets no limit: a timeout must be longer than 0s'"
        ".format([object.spec.trafficPolicy.timeout])",
    ),
    Check(
        "attempts-negative",
        f"{_RETRY} || !has(object.spec.trafficPolicy.retry.attempts)"
        " || object.spec.trafficPolicy.retry.attempts >= 0",
        "spec.trafficPolicy.retry.attempts: counts as 0: nothing is tried again",
        "'spec.trafficPolicy.retry.attempts: %d counts as 0: nothing is tried again'"
        ".format([object.spec.trafficPolicy.retry.attempts])",
    ),
    Check(
        "interval-negative",
        f"{_RETRY} || duration(object.spec.trafficPolicy.retry.retryInterval) >= duration('0s')",
        "spec.trafficPolicy.retry.retryInterval: counts as 0s: the next attempt follows at once",
        "'spec.trafficPolicy.retry.retryInterval: \"%s\" counts as 0s: the next attempt follows at once'"
        ".format([object.spec.trafficPolicy.retry.retryInterval])",
    ),
)

_MORE = "['cpu', 'memory', 'ephemeral-storage']"
"""Resources whose limit may exceed the request; for all others both must be equal."""
_REQUEST, _MOST = "quantity(string(w.resources.requests[k]))", "quantity(string(w.resources.limits[k]))"
_AT = "'spec.backends[' + b.name + '].workers[].resources."


def _texts(of_worker: str) -> str:
    """Texts of all workers of all backends, joined; none is an empty text."""
    join = ".filter(texts, texts != '').join('; ')"
    return f"object.spec.backends.map(b, b.workers.map(w, {of_worker}){join}){join}"


def _negative(kind: str) -> str:
    return (
        f"(has(w.resources) && has(w.resources.{kind}) ? w.resources.{kind}.filter(k,"
        f" quantity(string(w.resources.{kind}[k])).isLessThan(quantity('0')))"
        f".map(k, {_AT}{kind}[' + k + ']: must be greater than or equal to 0').join('; ') : '')"
    )


_MODEL_VARIABLES = {
    "above": _texts(
        "has(w.resources) && has(w.resources.requests) && has(w.resources.limits)"
        f" ? w.resources.requests.filter(k, k in w.resources.limits && (k in {_MORE}"
        f" ? {_REQUEST}.isGreaterThan({_MOST}) : {_REQUEST}.compareTo({_MOST}) != 0))"
        f".map(k, {_AT}requests: must be ' + (k in {_MORE} ? 'less than or equal to ' : 'equal to ') + k"
        " + ' limit of ' + string(w.resources.limits[k])).join('; ') : ''"
    ),
    "negative": _texts(f"[{_negative('requests')}, {_negative('limits')}].filter(t, t != '').join('; ')"),
}
_MODEL = (
    Check(
        "requests-above-limits",
        "variables.above == ''",
        "spec.backends[].workers[].resources.requests: must not be above limits",
        "variables.above",
        is_error=True,
    ),
    Check(
        "amounts-negative",
        "variables.negative == ''",
        "spec.backends[].workers[].resources: must be greater than or equal to 0",
        "variables.negative",
        is_error=True,
    ),
    Check(
        "weights-zero",
        "object.spec.backends.exists(b, b.routeWeight != 0)",
        "spec.backends: every routeWeight is 0: requests for the model are refused",
    ),
    Check(
        "worker-zero",
        "object.spec.backends.all(b, b.workers.all(w, (!has(w.replicas) || w.replicas > 0)"
        " && (!has(w.pods) || w.pods > 0)))",
        "spec.backends[].workers[]: replicas or pods is 0: nothing runs for this worker",
    ),
    Check(
        "no-policy-decides",
        "has(object.spec.autoscalingPolicy) || !object.spec.backends.exists(b, has(b.autoscalingPolicy))"
        " || object.spec.backends.all(b, has(b.autoscalingPolicy) || b.minReplicas >= b.maxReplicas)",
        "spec.backends[].minReplicas: is less than maxReplicas, but no policy decides: the number is fixed",
    ),
)

_POLICY = (
    Check(
        "tolerance-all",
        "object.spec.tolerancePercent < 100",
        "spec.tolerancePercent: 100 tolerates every change but a doubling: replicas never go down, unless"
        " to 0",
    ),
    Check(
        "metric-unnamed",
        "object.spec.metrics.all(m, m.metricName != '')",
        "spec.metrics[].metricName: is empty: no metric is called that",
    ),
    Check(
        "signal-unknown",
        f"object.spec.metrics.all(m, !m.metricName.startsWith('{PREFIX}')"
        f" || m.metricName in {list(METRICS)})",
        f"spec.metrics[].metricName: gateways have no such signal; they are {', '.join(METRICS)}",
        "'spec.metrics[].metricName: gateways have no signal \"' + object.spec.metrics.filter(m,"
        f" m.metricName.startsWith('{PREFIX}') && !(m.metricName in {list(METRICS)}))[0].metricName"
        f" + '\"; they are {', '.join(METRICS)}'",
    ),
)

_BINDING_VARIABLES = {
    "params": "has(object.spec.optimizerConfiguration) && has(object.spec.optimizerConfiguration.params)"
    " ? object.spec.optimizerConfiguration.params : []",
    "places": "(has(object.spec.scalingConfiguration) ? [object.spec.scalingConfiguration] : [])"
    " + (has(object.spec.optimizerConfiguration) && has(object.spec.optimizerConfiguration.params)"
    " ? object.spec.optimizerConfiguration.params : [])",
    "at": "has(object.spec.scalingConfiguration) ? 'spec.scalingConfiguration'"
    " : 'spec.optimizerConfiguration.params[]'",
}
_PATH = "p.target.metricEndpoint.uri"
_PORT = "p.target.metricEndpoint.port"
_WITH_PAGE = "!has(p.target) || !has(p.target.metricEndpoint)"
_BINDING = (
    Check(
        "bounds-crossed",
        "variables.places.all(p, p.minReplicas <= p.maxReplicas)",
        "minReplicas is more than maxReplicas: no number of replicas satisfies both",
        "variables.places.filter(p, p.minReplicas > p.maxReplicas).map(p, variables.at + '.minReplicas: '"
        " + string(p.minReplicas) + ' is more than maxReplicas, which is ' + string(p.maxReplicas)"
        " + ': no number of replicas satisfies both')[0]",
    ),
    Check(
        "bounds-equal",
        "variables.places.all(p, p.minReplicas != p.maxReplicas)",
        "minReplicas equals maxReplicas: there is nothing to scale",
        "variables.places.filter(p, p.minReplicas == p.maxReplicas).map(p, variables.at + '.minReplicas:"
        " equals maxReplicas: there is nothing to scale, always ' + string(p.minReplicas))[0]",
    ),
    Check(
        "costs-zero",
        "variables.params.size() < 2 || variables.params.exists(p, p.?cost.orValue(0) != 0)",
        "spec.optimizerConfiguration.params: every cost is 0: nothing tells which target is cheaper",
    ),
    Check(
        "target-unnamed",
        "variables.places.all(p, has(p.target) && has(p.target.targetRef.name)"
        " && p.target.targetRef.name != '')",
        "target.targetRef names no object: nothing is scaled",
        "variables.at + '.target.targetRef: names no object: nothing is scaled'",
    ),
    Check(
        "path",
        f"variables.places.all(p, {_WITH_PAGE} || {_PATH}.startsWith('/'))",
        'target.metricEndpoint.uri does not begin with "/": it is no path',
        f"variables.places.filter(p, !({_WITH_PAGE} || {_PATH}.startsWith('/'))).map(p, variables.at"
        f" + '.target.metricEndpoint.uri: \"' + {_PATH} + '\" does not begin with \"/\": it is no path')[0]",
    ),
    Check(
        "port",
        f"variables.places.all(p, {_WITH_PAGE} || ({_PORT} >= 1 && {_PORT} <= 65535))",
        "target.metricEndpoint.port is no port: a port is between 1 and 65535",
        f"variables.places.filter(p, !({_WITH_PAGE} || ({_PORT} >= 1 && {_PORT} <= 65535)))"
        f".map(p, variables.at + '.target.metricEndpoint.port: ' + string({_PORT})"
        " + ' is no port: a port is between 1 and 65535')[0]",
    ),
)


def _lacks(annotation: str) -> str:
    return f"!has(object.metadata.annotations) || !('{annotation}' in object.metadata.annotations)"


_OLD_POOL = (
    Check(
        "selector-empty",
        "object.spec.selector.size() > 0",
        "spec.selector: is empty and selects nothing: set the labels of the Pods",
    ),
    Check(
        "port-zero",
        "object.spec.targetPortNumber != 0",
        "spec.targetPortNumber: 0 is no port: no endpoint can be reached",
    ),
)
_ANY_POOL = (
    Check(
        "served-model-alone",
        f"{_lacks(SERVED_MODEL)} || '{MODELS}' in object.metadata.annotations",
        f"metadata.annotations[{SERVED_MODEL}]: has no effect without {MODELS}",
    ),
    Check(
        "connector-unknown",
        f"{_lacks(KV_CONNECTOR)} || object.metadata.annotations['{KV_CONNECTOR}'] in {list(CONNECTORS)}",
        f"metadata.annotations[{KV_CONNECTOR}]: is none of {', '.join(CONNECTORS)}",
        f"'metadata.annotations[{KV_CONNECTOR}]: \"' + object.metadata.annotations['{KV_CONNECTOR}']"
        f" + '\" is none of {', '.join(CONNECTORS)}: that of the engine counts'",
    ),
)

_TARGETS = "!has(object.spec.targetModels) || object.spec.targetModels.size() == 0"
_INFERENCE_MODEL = (
    Check(
        "name-empty",
        "has(object.spec.modelName) && object.spec.modelName != ''",
        "spec.modelName: is empty: no request is for this object",
    ),
    Check(
        "weights-zero",
        f"{_TARGETS} || object.spec.targetModels.exists(t, t.weight != 0)",
        "spec.targetModels: every weight is 0: the model name is reserved, and requests for it are refused",
    ),
    Check(
        "target-unnamed",
        f"{_TARGETS} || object.spec.targetModels.all(t, has(t.name) && t.name != '')",
        "spec.targetModels[].name: is empty: modelName is asked for",
    ),
)

_LABEL = "inference.optimization/acceleratorName"
_VARIANT_ID = (
    "object.spec.modelID + '-' + object.spec.accelerator + '-' + string(object.spec.acceleratorCount)"
)
_VARIANT = (
    Check(
        "variant-id",
        f"object.spec.variantID == {_VARIANT_ID}",
        "spec.variantID: is not modelID-accelerator-acceleratorCount; metrics go by variantID",
        f"'spec.variantID: modelID, accelerator and acceleratorCount make \"' + {_VARIANT_ID}"
        " + '\"; metrics go by variantID'",
    ),
    Check(
        "accelerator",
        f"!has(object.metadata.labels) || !('{_LABEL}' in object.metadata.labels)"
        f" || object.metadata.labels['{_LABEL}'] == object.spec.accelerator",
        f"metadata.labels[{_LABEL}]: is another accelerator than spec.accelerator",
        f"'metadata.labels[{_LABEL}]: \"' + object.metadata.labels['{_LABEL}']"
        " + '\" is another accelerator than spec.accelerator, which is \"' + object.spec.accelerator + '\"'",
    ),
)

CHECKS: Final[dict[tuple[str, str], tuple[Check, ...]]] = {
    ("networking.volcano.sh", "ModelRoute"): _ROUTE,
    ("networking.volcano.sh", "ModelServer"): _SERVER,
    ("registry.volcano.sh", "Model"): _MODEL,
    ("registry.volcano.sh", "AutoscalingPolicy"): _POLICY,
    ("registry.volcano.sh", "AutoscalingPolicyBinding"): _BINDING,
    ("inference.networking.x-k8s.io", "InferencePool"): (*_OLD_POOL, *_ANY_POOL),
    ("inference.networking.k8s.io", "InferencePool"): _ANY_POOL,
    ("inference.networking.x-k8s.io", "InferenceModel"): _INFERENCE_MODEL,
    ("llmd.ai", "VariantAutoscaling"): _VARIANT,
}
"""By group and kind."""

VARIABLES: Final[dict[str, dict[str, str]]] = {
    "Model": _MODEL_VARIABLES,
    "AutoscalingPolicyBinding": _BINDING_VARIABLES,
}
"""Variables of the checks, by kind and name."""
