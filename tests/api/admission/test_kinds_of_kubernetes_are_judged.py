# ruff: noqa: E501 - texts stand whole, as they are printed
"""What Kubernetes refuses in its own kinds, and what it warns of, in its words."""

from __future__ import annotations

import copy

import pytest

from headgate.api import marks
from headgate.api.admission import pod_changes


def pod_spec(**container):
    return {"containers": [{"name": "c", "image": "i"} | container]}


SELECTOR = {"matchLabels": {"app": "a"}}
TEMPLATE = {"metadata": {"labels": {"app": "a"}}, "spec": pod_spec()}
GOOD = {"selector": SELECTOR, "template": TEMPLATE}
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
PORT = "must be between 1 and 65535, inclusive"
NOT_NEGATIVE = "must be greater than or equal to 0"


@pytest.mark.parametrize(
    ("spec", "errors", "warnings"),
    [
        (pod_spec(), [], []),
        ({"containers": []}, ["spec.containers: Required value"], []),
        (pod_spec(name="C"), [f'spec.containers[0].name: Invalid value: "C": {LABEL}'], []),
        (pod_spec(name=""), ["spec.containers[0].name: Required value"], []),
        (
            pod_spec(ports=[{"containerPort": 0, "name": "A", "protocol": "X"}]),
            [
                "spec.containers[0].ports[0].containerPort: Required value",
                'spec.containers[0].ports[0].name: Invalid value: "A": must contain only alpha-numeric '
                "characters (a-z, 0-9), and hyphens (-)",
                'spec.containers[0].ports[0].name: Invalid value: "A": must contain at least one letter (a-z)',
                'spec.containers[0].ports[0].protocol: Unsupported value: "X": supported values: "SCTP", '
                '"TCP", "UDP"',
            ],
            [],
        ),
        (
            pod_spec(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 1, "name": "a"}]),
            ['spec.containers[0].ports[1].name: Duplicate value: "a"'],
            ["spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]"],
        ),
        (
            pod_spec(env=[{"name": "A", "value": "1"}, {"name": ""}, {"name": "A", "value": "2"}]),
            ["spec.containers[0].env[1].name: Required value"],
            ['spec.containers[0].env[2]: hides previous definition of "A", which may be dropped when using apply'],
        ),
        (
            pod_spec(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]),
            [
                'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is '
                "not empty"
            ],
            [],
        ),
        (
            pod_spec(livenessProbe={"periodSeconds": -1, "successThreshold": 2}),
            [
                "spec.containers[0].livenessProbe: Required value: must specify a handler type",
                f"spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: {NOT_NEGATIVE}",
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
            [],
        ),
        (
            pod_spec(readinessProbe={"httpGet": {"port": 0}, "tcpSocket": {"port": "http"}, "successThreshold": 2}),
            [
                "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler "
                "type",
                f"spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: {PORT}",
            ],
            [],
        ),
        (
            pod_spec(volumeMounts=[{"name": "w", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}])
            | {"volumes": [{"name": "v", "emptyDir": {}}]},
            [
                'spec.containers[0].volumeMounts[0].name: Not found: "w"',
                'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique',
            ],
            [],
        ),
        (
            pod_spec(resources={"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}),
            [
                'spec.containers[0].resources.requests: Invalid value: "2Gi": must be less than or equal to '
                "memory limit of 1Gi"
            ],
            [],
        ),
        (
            pod_spec() | {"terminationGracePeriodSeconds": -1, "activeDeadlineSeconds": 0},
            [
                f"spec.terminationGracePeriodSeconds: Invalid value: -1: {NOT_NEGATIVE}",
                "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
            ],
            [],
        ),
    ],
)  # fmt: skip
def test_pods(judge, make, spec, errors, warnings):
    """Containers, ports, environment, probes, mounts and resources."""
    assert judge(make("pod", "p", spec)) == (errors, warnings)


@pytest.mark.parametrize(
    ("what", "spec", "use"),
    [("pod", pod_spec(), "the Pod's hostname"), ("deployment", GOOD, "Pod names and hostnames")],
)
def test_names_that_are_no_dns_label_are_warned_of_once(judge, make, what, spec, use):
    """Host names are made of them; an update cannot change that any more."""
    told = f"this is used in {use}, which can result in surprising behavior; a DNS label is recommended"
    made = make(what, "llama-3.1", spec)
    assert judge(made) == ([], [f"metadata.name: {told}: [{LABEL}]"])
    assert judge(make(what, "llama-3.1", spec | {"minReadySeconds": 1}), old=made)[1] == []


@pytest.mark.parametrize(
    ("path", "value", "is_allowed"),
    [
        (("containers", 0, "image"), "other", True),
        (("activeDeadlineSeconds",), 5, True),
        (("tolerations",), [{"key": "a"}, {"key": "b"}], True),
        (("tolerations",), [{"key": "a", "tolerationSeconds": 5}], True),
        (("nodeName",), "n", True),
        (("tolerations",), [], False),
        (("containers", 0, "command"), ["x"], False),
        (("containers", 0, "name"), "d", False),
        (("restartPolicy",), "Never", False),
        (("terminationGracePeriodSeconds",), 1, False),
        (("schedulerName",), "mine", False),
    ],
)
def test_little_of_a_pod_that_is_there_may_change(judge, make, path, value, is_allowed):
    """Images, deadlines that come closer, further tolerations; and a node that is given to it."""
    old = make("pod", "p", pod_spec() | {"tolerations": [{"key": "a"}]})
    new = copy.deepcopy(old)
    at = new["spec"]
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    assert (judge(new, old=old)[0] == []) is is_allowed


def test_a_change_of_a_pod_is_refused_with_what_changed(judge, make):
    """Kubernetes prints the difference of two Go structs here; the paths say it in one line."""
    old = make("pod", "p", pod_spec() | {"nodeName": "n", "activeDeadlineSeconds": 5})
    new = make("pod", "p", pod_spec(args=["x"]) | {"nodeName": "m", "activeDeadlineSeconds": 6})
    assert judge(new, old=old)[0] == [
        "spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value",
        f"spec: Forbidden: {pod_changes._RULE}\nchanged: spec.containers[0].args, spec.nodeName",
    ]
    more = make("pod", "p", {"containers": [*pod_spec()["containers"], {"name": "d", "image": "i"}]})
    assert judge(more, old=old)[0] == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]


PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
    "used for validation is '[0-9]+%')"
)


def rolling(**limits):
    return GOOD | {"strategy": {"type": "RollingUpdate", "rollingUpdate": limits}}


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        (GOOD, []),
        (GOOD | {"replicas": -1}, [f"spec.replicas: Invalid value: -1: {NOT_NEGATIVE}"]),
        (
            GOOD | {"selector": {"matchLabels": {"app": "b"}}},
            [
                'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template '
                "`labels`"
            ],
        ),
        (
            GOOD | {"selector": {}},
            ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        ),
        (
            GOOD | {"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}},
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is "
                "'In' or 'NotIn'"
            ],
        ),
        (
            GOOD
            | {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["a"]}]}},
            [
                "spec.selector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is "
                "'Exists' or 'DoesNotExist'"
            ],
        ),
        (
            GOOD | {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}},
            [
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"
            ],
        ),
        (
            rolling(maxSurge=0, maxUnavailable="0%"),
            [
                'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` '
                "is 0"
            ],
        ),
        (
            rolling(maxSurge="many", maxUnavailable="101%"),
            [
                f'spec.strategy.rollingUpdate.maxSurge: Invalid value: "many": {PERCENT}',
                'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than '
                "100%",
            ],
        ),
        (
            rolling(maxSurge=-1, maxUnavailable=1),
            [f"spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: {NOT_NEGATIVE}"],
        ),
        (
            GOOD | {"minReadySeconds": 10, "progressDeadlineSeconds": 10},
            ["spec.progressDeadlineSeconds: Invalid value: 10: must be greater than minReadySeconds"],
        ),
        (
            GOOD | {"template": TEMPLATE | {"spec": pod_spec() | {"restartPolicy": "Never"}}},
            [
                'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
            ],
        ),
        (
            GOOD | {"template": {"metadata": {"labels": {"app": "a"}}, "spec": {}}},
            ["spec.template.spec.containers: Required value"],
        ),
    ],
)
def test_deployments(judge, make, spec, errors):
    """A template that its selector selects, and a strategy that can go on."""
    assert judge(make("deployment", "d", spec)) == (errors, [])


def test_selectors_are_for_ever(judge, make):
    """Of Deployments and ReplicaSets."""
    labels = {"app": "a", "tier": "x"}
    other = {"selector": {"matchLabels": labels}, "template": TEMPLATE | {"metadata": {"labels": labels}}}
    for what in ("deployment", "replica set"):
        assert judge(make(what, "d", other), old=make(what, "d", GOOD))[0] == [
            'spec.selector: Invalid value: {"matchLabels":{"app":"a","tier":"x"}}: field is immutable'
        ]
    assert judge(make("replica set", "d", {"selector": SELECTOR}))[0] == ["spec.template: Required value"]


def test_stateful_sets_change_little(judge, make):
    """Their number, template and strategy; the rest is for ever."""
    old = make("stateful set", "s", GOOD | {"serviceName": "a", "replicas": 1})
    assert judge(make("stateful set", "s", GOOD | {"serviceName": "a", "replicas": 2}), old=old) == ([], [])
    assert judge(make("stateful set", "s", GOOD | {"serviceName": "b"}), old=old)[0] == [
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
        "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
        "'minReadySeconds' are forbidden"
    ]
    assert judge(make("stateful set", "s", GOOD | {"selector": {}}))[0] == [
        "spec.selector: Invalid value: {}: empty selector is invalid for statefulset"
    ]


def test_horizontal_autoscalers(judge, make):
    """Bounds in order, a target with kind and name, and nobody else who scales it."""
    bad = {"minReplicas": 3, "maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment"}}
    assert judge(make("autoscaler", "a", bad))[0] == [
        "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`",
        "spec.scaleTargetRef.name: Required value",
    ]
    good = {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    other = make("autoscaler", "b", good)
    told = "decides how many replicas Deployment default/web has as well"
    assert judge(make("autoscaler", "a", good), other) == (
        [],
        [
            f"spec.scaleTargetRef.name: HorizontalPodAutoscaler default/b {told}; they overwrite each other: "
            "delete one of them"
        ],
    )


def test_a_horizontal_autoscaler_scales_by_the_gauges_of_a_variant(judge, make):
    """Only a variant with headgate.dev/actuate would write the replicas; it steps back."""
    autoscaler = make(
        "autoscaler", "a", {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    )
    variant = make("variant", "web", {})
    assert judge(autoscaler, variant) == ([], [])
    variant["metadata"]["annotations"] = {marks.ACTUATE: marks.DIRECT}
    told = "decides how many replicas Deployment default/web has as well; the HorizontalPodAutoscaler is followed"
    assert judge(autoscaler, variant) == (
        [],
        [f"spec.scaleTargetRef.name: VariantAutoscaling default/web {told}"],
    )
    assert f"metadata.name: HorizontalPodAutoscaler default/a {told}" in judge(variant, autoscaler)[1]


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({"ports": [{"port": 80}]}, []),
        ({"clusterIP": "None"}, []),
        ({"type": "ExternalName", "externalName": "example.com"}, []),
        ({}, ["spec.ports: Required value"]),
        ({"type": "ExternalName"}, ["spec.externalName: Required value"]),
        (
            {"type": "Magic", "ports": [{"port": 80}]},
            [
                'spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", '
                '"LoadBalancer", "NodePort"'
            ],
        ),
        (
            {
                "ports": [
                    {"port": 80, "name": "a"},
                    {"port": 70000, "targetPort": 0},
                    {"port": 80, "name": "a"},
                ]
            },
            [
                "spec.ports[1].name: Required value",
                f"spec.ports[1].port: Invalid value: 70000: {PORT}",
                f"spec.ports[1].targetPort: Invalid value: 0: {PORT}",
                'spec.ports[2].name: Duplicate value: "a"',
                'spec.ports[2]: Duplicate value: {"name":"a","port":80}',
            ],
        ),
    ],
)
def test_services(judge, make, spec, errors):
    """Ports are told apart by name; a type needs what it stands for."""
    assert judge(make("service", "s", spec)) == (errors, [])


def test_the_address_of_a_service_is_for_ever(judge, make):
    """An update that does not say it keeps it."""
    old = make("service", "s", {"clusterIP": "None", "ports": [{"port": 1}]})
    assert judge(make("service", "s", {"ports": [{"port": 2}]}), old=old) == ([], [])
    assert judge(make("service", "s", {"clusterIP": "10.0.0.1", "ports": [{"port": 1}]}), old=old)[0] == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.1"]: may not change once set'
    ]


def test_config_maps_and_secrets(judge, make):
    """Keys become names of files, and immutable means it."""
    frozen = "Forbidden: field is immutable when `immutable` is set"
    key = (
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
        "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
    )
    config = make("config map", "c") | {"data": {"a b": "x", "..": "y"}}
    assert judge(config)[0] == [
        f'data[a b]: Invalid value: "a b": {key}',
        "data[..]: Invalid value: \"..\": must not be '..'",
    ]
    old = make("config map", "c") | {"data": {"a": "x"}, "immutable": True}
    assert judge(make("config map", "c") | {"data": {"a": "y"}}, old=old)[0] == [
        f"immutable: {frozen}",
        f"data: {frozen}",
    ]
    big = make("config map", "c") | {"data": {"a": "x" * (1 << 20), "b": "y"}}
    assert judge(big)[0] == ["[]: Too long: may not be more than 1048576 bytes"]
    secret = make("secret", "s") | {"type": "Opaque"}
    assert judge(secret | {"type": "kubernetes.io/tls"}, old=secret)[0] == [
        'type: Invalid value: "kubernetes.io/tls": field is immutable'
    ]


def test_metadata_of_any_kind(judge, make):
    """Names by the form of their kind, keys and values of labels, owners."""
    assert judge(make("service", "1a", {"ports": [{"port": 1}]}))[0][0].startswith(
        'metadata.name: Invalid value: "1a": a DNS-1035 label must consist of'
    )
    assert judge(make("namespace", "a.b"))[0] == [f'metadata.name: Invalid value: "a.b": {LABEL}']
    for length, is_valid in ((253, True), (254, False)):
        generating = make("config map", "a", generateName=f"{length * 'a'}-")
        assert (judge(generating)[0] == []) is is_valid
    nameless = make("config map", "")
    assert judge(nameless)[0] == ["metadata.name: Required value: name or generateName is required"]
    owned = make(
        "config map",
        "c",
        labels={"a/b/c": "x", "ok": "-"},
        finalizers=["no spaces"],
        ownerReferences=[
            {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "", "controller": True} for name in "ab"
        ],
    )
    fields = [error.partition(":")[0] for error in judge(owned)[0]]
    assert fields == [
        "metadata.labels",
        "metadata.labels",
        "metadata.ownerReferences[0].uid",
        "metadata.ownerReferences[1].uid",
        "metadata.ownerReferences",
        "metadata.finalizers",
    ]


def test_leases(judge, make):
    """A lease has a length."""
    assert judge(make("lease", "l", {"leaseDurationSeconds": 0, "leaseTransitions": -1}))[0] == [
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        f"spec.leaseTransitions: Invalid value: -1: {NOT_NEGATIVE}",
    ]
