# ruff: noqa: E501 - texts stand whole, as they are printed
"""What is refused in ModelServers and InferencePools, and what their authors are told, word by word."""

from __future__ import annotations

import pytest

LABELS = {"matchLabels": {"app": "s"}}
ROLES = {"groupKey": "group", "prefillLabels": {"role": "p"}, "decodeLabels": {"role": "d"}}


@pytest.mark.parametrize(
    ("spec", "errors", "warnings"),
    [
        ({"workloadSelector": LABELS}, [], []),
        ({"workloadSelector": LABELS | {"pdGroup": ROLES}, "kvConnector": {"type": "nixl"}}, [], []),
        (
            {"workloadSelector": LABELS | {"pdGroup": ROLES | {"decodeLabels": {"role": "p", "x": "y"}}}},
            [],
            [
                "spec.workloadSelector.pdGroup.prefillLabels: every Pod that has the decodeLabels has these "
                "too: it would get both roles"
            ],
        ),
        (
            {"workloadSelector": LABELS | {"pdGroup": ROLES | {"decodeLabels": {"app": "t"}}}},
            [],
            [
                "spec.workloadSelector.pdGroup.decodeLabels[app]: no Pod can decode: matchLabels wants "
                'app="s" of all Pods'
            ],
        ),
        (
            {"workloadSelector": {"matchLabels": {"app": "not a label", "a b": "c"}}},
            [],
            [
                "spec.workloadSelector.matchLabels[app]: selects nothing: 'not a label' is not the value of "
                "a label",
                "spec.workloadSelector.matchLabels[a b]: selects nothing: 'a b' is not the key of a label",
            ],
        ),
        (
            {"workloadSelector": LABELS, "kvConnector": {"type": "http"}},
            [],
            ["spec.kvConnector: has no effect without workloadSelector.pdGroup: no KV cache is handed over"],
        ),
        (
            {"workloadSelector": LABELS, "trafficPolicy": {"timeout": "0s", "retry": {"attempts": -1}}},
            [],
            [
                'spec.trafficPolicy.timeout: "0s" sets no limit: a timeout must be longer than 0s',
                "spec.trafficPolicy.retry.attempts: -1 counts as 0: nothing is tried again",
            ],
        ),
    ],
)
def test_model_servers(judge, make, spec, errors, warnings):
    """Roles and labels must be possible, and times must have an effect."""
    assert judge(make("server", "s", spec)) == (errors, warnings)


@pytest.mark.parametrize(
    ("protocol", "notes", "warnings"),
    [
        ("https", {"tls-ca": "engines/root.pem", "tls-server-name": "engine.example"}, []),
        (
            "https",
            {"tls-ca": "Engines"},
            [
                "[headgate.dev/tls-ca]: 'Engines' is not the name of a Secret; write `secret` or `secret/key`; until then no Pod gets requests"
            ],
        ),
        (
            "https",
            {"tls-insecure": "1"},
            [
                '[headgate.dev/tls-insecure]: \'1\' is neither "true" nor "false"; until then no Pod gets requests'
            ],
        ),
        (
            "https",
            {"tls-insecure": "true"},
            [
                "[headgate.dev/tls-insecure]: anyone who takes the address of a Pod can read and answer its requests"
            ],
        ),
        (
            "http",
            {"tls-ca": "engines"},
            ["[headgate.dev/tls-ca]: has no effect without workloadPort.protocol https"],
        ),
    ],
)
def test_how_endpoints_are_verified(judge, make, protocol, notes, warnings):
    """Annotations that say nothing clear, or too much, are told."""
    spec = {"workloadSelector": LABELS, "workloadPort": {"port": 1, "protocol": protocol}}
    annotations = {f"headgate.dev/{name}": value for name, value in notes.items()}
    told = [f"metadata.annotations{warning}" for warning in warnings]
    assert judge(make("server", "s", spec, annotations=annotations)) == ([], told)


@pytest.mark.parametrize(
    ("notes", "warnings"),
    [
        ({"headgate.dev/kv-events": "tcp://*:5557", "headgate.dev/kv-events-replay": "tcp://*:5558"}, []),
        ({"headgate.dev/scheduling-profile": "random", "example.com/kv-event": "x"}, []),
        (
            {"headgate.dev/kv-event": "tcp://*:5557"},
            [
                "[headgate.dev/kv-event]: no annotation of ModelServers has this name; did you mean headgate.dev/kv-events?"
            ],
        ),
        ({"headgate.dev/scale-from-zero": "90", "headgate.dev/start-failed": "no GPU"}, []),
        (
            {"headgate.dev/start-failed": "no GPU"},
            ["[headgate.dev/start-failed]: has no effect without headgate.dev/scale-from-zero"],
        ),
        ({"headgate.dev/x": ""}, ["[headgate.dev/x]: no annotation of ModelServers has this name"]),
        (
            {"headgate.dev/remote-prefill-tokens": "64"},
            ["[headgate.dev/remote-prefill-tokens]: has no effect without workloadSelector.pdGroup"],
        ),
        (
            {"headgate.dev/kv-events-ranks": "2"},
            [
                "[headgate.dev/kv-events-ranks]: has an effect only on Pods that have headgate.dev/kv-events themselves"
            ],
        ),
    ],
)
def test_annotations_that_nobody_reads_are_told(judge, make, notes, warnings):
    """Misspelt ones of ours, and those that need something else; others' are none of our business."""
    told = [f"metadata.annotations{warning}" for warning in warnings]
    assert judge(make("server", "s", {"workloadSelector": LABELS}, annotations=notes)) == ([], told)


def test_servers_that_share_pods_are_told(judge, make):
    """One selector inside the other means shared Pods for certain; anything else may be as intended."""

    def server(name, **labels):
        return make("server", name, {"workloadSelector": {"matchLabels": labels}})

    all_of_them, mine = server("all", app="s"), server("mine", app="s", tier="gold")
    place = "spec.workloadSelector.matchLabels"
    assert judge(mine, all_of_them)[1] == [
        f"{place}: ModelServer default/all selects all of these Pods as well"
    ]
    assert judge(all_of_them, mine)[1] == [
        f"{place}: all Pods of ModelServer default/mine are selected as well"
    ]
    assert judge(server("twin", app="s"), all_of_them)[1] == [
        f"{place}: ModelServer default/all selects the same Pods"
    ]
    assert judge(mine, server("other", app="s", tier="silver"), mine) == ([], [])


@pytest.mark.parametrize(
    ("others", "told"),
    [
        (2, "ModelServer default/s-00 and ModelServer default/s-01 select"),
        (3, "ModelServer default/s-00, ModelServer default/s-01 and ModelServer default/s-02 select"),
        (
            5,
            "ModelServer default/s-00, ModelServer default/s-01, ModelServer default/s-02 and 2 others select",
        ),
        (
            40,
            "ModelServer default/s-00, ModelServer default/s-01, ModelServer default/s-02 and others select",
        ),
    ],
)
def test_many_that_share_pods_are_one_warning(judge, make, others, told):
    """The first few are named; beyond those that are looked at, nobody counts."""
    labels = {"workloadSelector": LABELS}
    several = [make("server", f"s-{number:02}", labels) for number in range(others)]
    place = "spec.workloadSelector.matchLabels"
    assert judge(make("server", "twin", labels), *several)[1] == [f"{place}: {told} the same Pods"]


@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        ({"selector": {"app": "s"}, "targetPortNumber": 8000}, []),
        (
            {"selector": {}, "targetPortNumber": 0},
            [
                "spec.selector: is empty and selects nothing: set the labels of the Pods",
                "spec.targetPortNumber: 0 is no port: no endpoint can be reached",
            ],
        ),
        (
            {"selector": {"app": "mine"}, "targetPortNumber": 8000},
            ["spec.selector: InferencePool default/other selects the same Pods"],
        ),
    ],
)
def test_pools(judge, make, spec, warnings):
    """An InferencePool of v1alpha1 may be useless in few ways."""
    other = make("pool", "other", {"selector": {"app": "mine"}})
    assert judge(make("pool", "p", spec), other) == ([], warnings)


@pytest.mark.parametrize(
    ("notes", "warnings"),
    [
        ({"headgate.dev/models": "a,b", "headgate.dev/model": "c", "headgate.dev/engine": "SGLang"}, []),
        (
            {"headgate.dev/model": "c"},
            ["[headgate.dev/model]: has no effect without headgate.dev/models"],
        ),
        (
            {"headgate.dev/modells": "c"},
            [
                "[headgate.dev/modells]: no annotation of InferencePools has this name; did you mean headgate.dev/models?"
            ],
        ),
        ({"headgate.dev/protocol": "https", "headgate.dev/tls-ca": "engines"}, []),
        (
            {"headgate.dev/tls-ca": "engines"},
            ["[headgate.dev/tls-ca]: has no effect without headgate.dev/protocol https"],
        ),
        (
            {"headgate.dev/protocol": "HTTPS"},
            [
                "[headgate.dev/protocol]: 'HTTPS' is neither http nor https; until then no Pod gets requests",
            ],
        ),
        (
            {"headgate.dev/scale-from-zero": "soon"},
            [
                "[headgate.dev/scale-from-zero]: 'soon' is not a number of seconds from 0 to 86400, such as 90; "
                "until then no request waits for a start",
            ],
        ),
        ({"headgate.dev/kv-connector": "lmcache", "headgate.dev/remote-prefill-tokens": "64"}, []),
        (
            {"headgate.dev/kv-connector": "nixlv2"},
            [
                '[headgate.dev/kv-connector]: "nixlv2" is none of http, lmcache, nixl, mooncake: that of the engine counts',
            ],
        ),
    ],
)
def test_annotations_of_pools_that_nobody_reads_are_told(judge, make, notes, warnings):
    """Of both versions."""
    told = [f"metadata.annotations{warning}" for warning in warnings]
    old = make("pool", "p", {"selector": {"app": "s"}, "targetPortNumber": 8000}, annotations=notes)
    new = make("pool v1", "p", {"selector": {"matchLabels": {"app": "s"}}}, annotations=notes)
    assert (judge(old), judge(new)) == (([], told), ([], told))


def test_the_picker_of_a_pool_is_a_service_that_is_there(judge, make):
    """A missing one is told with what follows from it; one of type ExternalName is refused."""
    spec = {"selector": {"matchLabels": {"app": "s"}}, "endpointPickerRef": {"name": "epp"}}
    pool = make("pool v1", "p", spec)
    assert judge(pool)[1] == [
        "spec.endpointPickerRef.name: there is no Service default/epp; gateways that ask the picker refuse "
        "requests until there is"
    ]
    assert judge(pool, make("service", "epp", {"type": "ClusterIP"})) == ([], [])
    assert judge(pool, make("service", "epp", {"type": "ExternalName"}))[0] == [
        'spec.endpointPickerRef.name: Invalid value: "epp": must not be a Service of type ExternalName'
    ]


def test_inference_models_name_a_pool_that_is_there(judge, make):
    """With a hint where the pool is in the other group of the two."""
    reference = {"group": "inference.networking.x-k8s.io", "kind": "InferencePool", "name": "p"}
    model = make("inference model", "m", {"modelName": "m", "poolRef": reference})
    missing = "spec.poolRef.name: there is no InferencePool default/p in group inference.networking.x-k8s.io"
    assert judge(model)[1] == [f"{missing}; requests fail until there is"]
    assert judge(model, make("pool v1", "p", {}))[1] == [
        f"{missing}, but there is one in inference.networking.k8s.io: set poolRef.group"
    ]
    assert judge(model, make("pool", "p", {}, namespace="prod"))[1] == [
        "spec.poolRef.name: there is no InferencePool default/p, but prod/p: a pool serves only its own namespace"
    ]
    assert judge(model, make("pool", "p", {})) == ([], [])
    objective = make("objective", "o", {"priority": 1, "poolRef": reference | {"kind": "Service"}})
    assert judge(objective)[1] == [
        "spec.poolRef: Service of group inference.networking.x-k8s.io is no kind of pool that can serve"
    ]


def test_inference_models_split_by_weights_that_serve(judge, make):
    """A weight of 0 on the only target reserves the name, which is legal and must be meant."""
    reference = {"group": "inference.networking.x-k8s.io", "name": "p"}
    pool = make("pool", "p", {})

    def split(*targets):
        spec = {"modelName": "m", "poolRef": reference, "targetModels": list(targets)}
        return judge(make("inference model", "m", spec), pool)[1]

    assert split({"name": "a", "weight": 1}, {"name": "b", "weight": 0}) == []
    assert split({"name": "a", "weight": 0}) == [
        "spec.targetModels: the only weight is 0: the model name is reserved, and requests for it are refused"
    ]
    assert split({"name": "a", "weight": 1}, {"name": "a", "weight": 1}, {"weight": 1}) == [
        'spec.targetModels[1].name: "a" is targetModels[0] already; their weights add up',
        "spec.targetModels[2].name: is empty: modelName is asked for",
    ]


def test_one_model_name_is_served_by_one_object_of_a_pool(judge, make):
    """The oldest is served; a ModelRoute for the name goes before all InferenceModels."""
    pool = make("pool", "p", {})

    def model(name, day, pool_name="p"):
        reference = {"group": "inference.networking.x-k8s.io", "name": pool_name}
        spec = {"modelName": "m", "poolRef": reference}
        return make("inference model", name, spec, creationTimestamp=f"2026-01-0{day}T00:00:00Z")

    first, second = model("first", 1), model("second", 2)
    assert judge(second, pool, first)[1] == [
        'spec.modelName: InferenceModel default/first has "m" in the same pool and is older: this one is not '
        "served (ModelNameInUse)"
    ]
    assert judge(first, pool, second)[1] == [
        'spec.modelName: InferenceModel default/second has "m" in the same pool and is younger: it is not '
        "served (ModelNameInUse)"
    ]
    assert judge(first, pool, model("far", 3, "q"))[1] == [
        'spec.modelName: InferenceModel default/far has "m" in another pool: the older is served while its pool exists'
    ]
    route = make("route", "r", {"modelName": "m", "rules": [{"targetModels": [{"modelServerName": "s"}]}]})
    assert judge(first, pool, route)[1] == [
        'spec.modelName: ModelRoute default/r is for "m" too and goes first: this InferenceModel gets no '
        "requests"
    ]
