# ruff: noqa: E501 - texts stand whole, as they are printed
"""The rules of the registry kinds, word by word: Model, AutoscalingPolicy, AutoscalingPolicyBinding."""

from __future__ import annotations

import copy

import pytest

from headgate.api import admission, marks

POLICY = {"metrics": [{"metricName": "queue", "targetValue": "5"}]}


def backend(name="a", **fields):
    return {
        "name": name,
        "type": "vLLM",
        "modelURI": "hf://m",
        "minReplicas": 1,
        "maxReplicas": 1,
        "workers": [{"type": "server", "image": "vllm:1"}],
    } | fields


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"backends": [backend()]}, []),
        (
            {
                "backends": [
                    backend(
                        workers=[{"type": "server", "resources": {"requests": {"cpu": "2", "gpu": 1}, "limits": {"cpu": "1500m", "gpu": 2}}}]
                    )
                ]
            },
            [
                'spec.backends[0].workers[0].resources.requests: Invalid value: "2": must be less than or '
                "equal to cpu limit of 1500m",
                'spec.backends[0].workers[0].resources.requests: Invalid value: "1": must be equal to gpu '
                "limit of 2",
            ],
        ),
    ],
)  # fmt: skip
def test_what_is_refused_in_a_model(judge, make, spec, errors):
    """Requests above their limits."""
    assert judge(make("model", "m", spec))[0] == errors


def test_what_is_warned_of_in_a_model(judge, make):
    """A worker that never runs, no weight, a name that is taken."""
    spec = {
        "name": "llm",
        "backends": [
            backend("b", workers=[{"type": "server", "pods": 0}], routeWeight=0),
            backend("c", minReplicas=1, maxReplicas=2, routeWeight=0),
            backend("d", autoscalingPolicy=POLICY, maxReplicas=2, routeWeight=0),
        ],
    }
    route = make("route", "r", {"modelName": "llm"})
    assert judge(make("model", "m", spec), route) == (
        [],
        [
            "spec.backends[0].workers[0].pods: is 0: nothing runs for this worker",
            "spec.backends[1].minReplicas: is less than maxReplicas, but no policy decides: there are always 1",
            "spec.backends: every routeWeight is 0: requests for the model are refused",
            'spec.name: requests for "llm" are for ModelRoute default/r too',
        ],
    )


def test_a_model_with_one_policy_gets_what_the_policy_needs(make, judge):
    """Grace period and rate of expansion have defaults then, and only then."""
    with_policy = make("model", "m", {"backends": [backend(scalingCost=1)], "autoscalingPolicy": POLICY})
    admission.default(with_policy)
    assert with_policy["spec"]["costExpansionRatePercent"] == 200
    assert with_policy["spec"]["backends"][0]["scaleToZeroGracePeriod"] == "30s"
    assert judge(with_policy) == ([], [])
    without = make("model", "m", {"backends": [backend(autoscalingPolicy=POLICY), backend("b")]})
    admission.default(without)
    assert "costExpansionRatePercent" not in without["spec"]
    assert "scaleToZeroGracePeriod" not in without["spec"]["backends"][0]


def test_policies_in_a_model_are_as_complete_as_those_beside_it(make):
    """The controller copies them, and has nothing to add; without any policy, nothing is filled in."""
    policy = make("policy", "p", POLICY)
    admission.default(policy)
    for_all = make("model", "m", {"backends": [backend(scalingCost=1)], "autoscalingPolicy": POLICY})
    admission.default(for_all)
    assert for_all["spec"]["autoscalingPolicy"] == policy["spec"]
    for_one = make("model", "m", {"backends": [backend(autoscalingPolicy=POLICY)]})
    admission.default(for_one)
    assert for_one["spec"]["backends"][0]["autoscalingPolicy"] == policy["spec"]
    without = make("model", "m", {"backends": [backend()]})
    before = copy.deepcopy(without)
    admission.default(without)
    assert without == before


@pytest.mark.parametrize(
    "behavior", [{}, {"scaleUp": None}, {"scaleUp": {"stablePolicy": {}}, "scaleDown": {}}]
)
def test_the_behavior_of_a_policy_is_complete_however_little_is_written(make, behavior):
    """A block that is left out has the defaults of one that is empty; the windows differ by direction."""
    policy = make("policy", "p", POLICY | {"behavior": behavior})
    admission.default(policy)
    stable = {"instances": 1, "percent": 100, "period": "15s", "selectPolicy": "Or"}
    assert policy["spec"]["behavior"] == {
        "scaleUp": {"stablePolicy": stable | {"stabilizationWindow": "0s"}},
        "scaleDown": stable | {"stabilizationWindow": "5m"},
    }


def test_defaults_never_replace_what_is_written(make):
    """Neither a value nor something of a wrong type, which the schema reports."""
    down = {"instances": 3, "stabilizationWindow": "1m"}
    policy = make("policy", "p", POLICY | {"behavior": {"scaleUp": 7, "scaleDown": down}})
    admission.default(policy)
    behavior = policy["spec"]["behavior"]
    assert behavior["scaleUp"] == 7
    assert (behavior["scaleDown"]["instances"], behavior["scaleDown"]["stabilizationWindow"]) == (3, "1m")


@pytest.mark.parametrize(
    ("change", "warnings"),
    [
        (
            {
                "tolerancePercent": 100,
                "behavior": {
                    "scaleUp": {
                        "stablePolicy": {"instances": 0, "percent": 0},
                        "panicPolicy": {"period": "1m", "panicModeHold": "0s"},
                    },
                    "scaleDown": {"selectPolicy": "And", "instances": 1, "percent": 0},
                },
            },
            [
                "spec.tolerancePercent: 100 tolerates every change but a doubling: replicas never go down, "
                "unless to 0",
                "spec.behavior.scaleUp.stablePolicy: instances and percent are 0: replicas are never added",
                "spec.behavior.scaleDown.percent: is 0, and with selectPolicy And the smaller counts: replicas "
                "are never removed",
                "spec.behavior.scaleUp.panicPolicy.panicModeHold: is 0s: panic mode never begins",
            ],
        ),
        (
            {"behavior": {"scaleDown": {"period": "0s"}}},
            ["spec.behavior.scaleDown.period: is 0s: instances and percent limit nothing"],
        ),
    ],
)
def test_policies(judge, make, change, warnings):
    """Limits by which the number of replicas can never change, or never be limited."""
    assert judge(make("policy", "p", POLICY | change)) == ([], warnings)


@pytest.fixture
def world(make):
    return make("policy", "p", POLICY), make("deployment", "web", {})


def scaling(name="web", least=1, most=3, **reference):
    target = {"targetRef": {"kind": "Deployment", "name": name} | reference}
    return {"target": target, "minReplicas": least, "maxReplicas": most}


def test_a_binding_without_its_policy_is_refused(judge, make, world):
    """By who knows all there is; who sees some manifests only can but warn."""
    binding = make("binding", "b", {"policyRef": {"name": "gone"}, "scalingConfiguration": scaling()})
    assert judge(binding, *world)[0] == ['spec.policyRef.name: Not found: "gone"']
    found = admission.check(binding, None, admission.Gathered([binding, *world]))
    assert (found.errors, found.warnings) == (
        [],
        ["spec.policyRef.name: there is no AutoscalingPolicy default/gone among these manifests"],
    )


@pytest.mark.parametrize(
    ("configuration", "warnings"),
    [
        ({"scalingConfiguration": scaling()}, []),
        (
            {"scalingConfiguration": scaling(least=5)},
            [
                "spec.scalingConfiguration.minReplicas: 5 is more than maxReplicas, which is 3: no number of "
                "replicas satisfies both"
            ],
        ),
        (
            {"scalingConfiguration": scaling(least=3)},
            [
                "spec.scalingConfiguration.minReplicas: equals maxReplicas: there is nothing to scale, always 3"
            ],
        ),
        (
            {"scalingConfiguration": {"minReplicas": 1, "maxReplicas": 2}},
            ["spec.scalingConfiguration.target.targetRef: names no object: nothing is scaled"],
        ),
        (
            {"scalingConfiguration": scaling("gone", namespace="far")},
            [
                "spec.scalingConfiguration.target.targetRef.namespace: refused unless a ReferenceGrant in "
                'namespace far allows it, from AutoscalingPolicyBinding, group "registry.volcano.sh", namespace '
                'default, to Deployment, group "apps", name gone'
            ],
        ),
        (
            {"scalingConfiguration": scaling(kind="Thing")},
            [
                "spec.scalingConfiguration.target.targetRef: does not say what it is: set apiVersion and kind, "
                "as in apps/v1 and Deployment"
            ],
        ),
        (
            {"optimizerConfiguration": {"params": [scaling() | {"cost": 0}, scaling() | {"cost": 0}]}},
            [
                'spec.optimizerConfiguration.params[1].target.targetRef.name: "web" is the target of params[0] '
                "already",
                "spec.optimizerConfiguration.params: every cost is 0: nothing tells which target is cheaper",
            ],
        ),
    ],
)
def test_what_is_warned_of_in_a_binding(judge, make, world, configuration, warnings):
    """Bounds that contradict each other, targets that are not there."""
    binding = make("binding", "b", {"policyRef": {"name": "p"}} | configuration)
    assert judge(binding, *world) == ([], warnings)


def test_a_workload_with_two_owners_of_its_number_is_told(judge, make, world):
    """Bindings and variants alike."""
    spec = {"policyRef": {"name": "p"}, "scalingConfiguration": scaling()}
    first, second = make("binding", "first", spec), make("binding", "second", spec)
    told = "decides how many replicas Deployment default/web has as well; the older one is followed"
    assert judge(second, *world, first)[1] == [
        f"spec.scalingConfiguration.target.targetRef.name: AutoscalingPolicyBinding default/first {told}"
    ]
    variant = make("variant", "web", {})
    assert judge(variant, *world, first)[1] == []
    variant["metadata"]["annotations"] = {marks.ACTUATE: marks.DIRECT}
    assert judge(variant, *world, first)[1] == [
        f"metadata.name: AutoscalingPolicyBinding default/first {told}"
    ]


def test_variants_that_cannot_be_planned_with_are_told(judge, make):
    """All of it is legal; the planner leaves such a variant out."""
    spec = {
        "modelID": "meta/llama",
        "variantID": "meta/llama-H100-1",
        "accelerator": "A100",
        "acceleratorCount": 2,
        "sloClassRef": {"name": "slo", "key": "gold"},
        "variantProfile": {
            "perfParms": {"decodeParms": {"alpha": "x", "beta": "0.4"}, "prefillParms": {"gamma": "nan"}}
        },
    }
    label = {"inference.optimization/acceleratorName": "H100"}
    variant = make("variant", "v", spec, labels=label)
    config = make("config map", "slo") | {"data": {"silver": "x"}}
    parameters = "spec.variantProfile.perfParms"
    assert judge(variant, config) == (
        [],
        [
            'spec.variantID: modelID, accelerator and acceleratorCount make "meta/llama-A100-2"; metrics go by '
            "variantID",
            'metadata.labels[inference.optimization/acceleratorName]: "H100" is another accelerator than '
            'spec.accelerator, which is "A100"',
            f'{parameters}.decodeParms[alpha]: "x" is not a number of milliseconds: the variant is left out of '
            "planning",
            f'{parameters}.prefillParms[gamma]: "nan" is not a number of milliseconds: the variant is left out '
            "of planning",
            f'{parameters}.prefillParms: has no "delta": the variant is left out of planning',
            'spec.sloClassRef.key: ConfigMap default/slo has no key "gold": there is no objective',
            "metadata.name: there is no Deployment, StatefulSet or LeaderWorkerSet default/v; nothing is "
            "scaled until there is",
        ],
    )


@pytest.mark.parametrize("name", [{}, {"name": "far-away"}])
def test_a_target_elsewhere_that_is_granted_is_looked_for_there(judge, make, world, name):
    """Once a ReferenceGrant in its namespace allows it."""
    grant = {
        "apiVersion": "gateway.networking.k8s.io/v1beta1",
        "kind": "ReferenceGrant",
        "metadata": {"name": "grant", "namespace": "far"},
        "spec": {
            "from": [
                {"group": "registry.volcano.sh", "kind": "AutoscalingPolicyBinding", "namespace": "default"}
            ],
            "to": [{"group": "apps", "kind": "Deployment", **name}],
        },
    }
    scaled = {"policyRef": {"name": "p"}, "scalingConfiguration": scaling("far-away", namespace="far")}
    binding = make("binding", "b", scaled)
    assert judge(binding, *world, grant)[1] == [
        "spec.scalingConfiguration.target.targetRef.name: there is no Deployment far/far-away; nothing is "
        "scaled until there is"
    ]
    grant["spec"]["from"][0]["namespace"] = "other"
    [warning] = judge(binding, *world, grant)[1]
    assert "refused unless a ReferenceGrant in namespace far allows it" in warning
