"""Workers, ports, connectors and names of backends of each type."""

import pytest

from headgate import api
from headgate.controllers.model import Observed, names


def of_kind(children, kind):
    return {child.name: child.manifest["spec"] for child in children.children if child.kind is kind}


def disaggregated(backend, *workers, **fields):
    return backend("pd", type="vLLMDisaggregated", workers=list(workers), **fields)


PREFILL, DECODE = {"type": "prefill"}, {"type": "decode"}


def test_prefill_and_decode_are_apart(made, backend):
    """Pods of one backend belong to one group; the connector is that of the workers."""
    transfer = {"kv-transfer-config": {"kv_connector": "MooncakeConnectorV1"}}
    children = made(disaggregated(backend, PREFILL | {"config": transfer}, DECODE))
    server = of_kind(children, api.ModelServer)["m-pd"]
    assert server["kvConnector"] == {"type": "mooncake"}
    group = server["workloadSelector"]["pdGroup"]
    roles, groups = {}, set()
    for name, spec in of_kind(children, api.Deployment).items():
        labels = spec["template"]["metadata"]["labels"]
        groups.add(labels[group["groupKey"]])
        assert server["workloadSelector"]["matchLabels"].items() <= labels.items()
        roles[name] = [group[role].items() <= labels.items() for role in ("prefillLabels", "decodeLabels")]
    assert roles == {"m-pd-prefill": [True, False], "m-pd-decode": [False, True]}
    assert len(groups) == 1


@pytest.mark.parametrize(
    ("fields", "config"),
    [
        ({"modelURI": "hf://org/other"}, {}),
        ({}, {"kv-transfer-config": {"kv_connector": "LMCacheConnectorV1"}}),
    ],
)
def test_caches_of_former_pods_are_not_for_new_ones(made, backend, fields, config):
    """Other weights or another connector make another group; a mere setting does not."""

    def group(config=None, **fields):
        children = made(disaggregated(backend, PREFILL | {"config": config or {}}, DECODE, **fields))
        spec = of_kind(children, api.Deployment)["m-pd-decode"]
        return spec["template"]["metadata"]["labels"][names.PD_GROUP]

    assert group() == group({"max-num-seqs": 8})
    assert group(config, **fields) != group()


def test_pods_of_a_former_server_still_decode(made, backend):
    """While a backend becomes disaggregated, its old Pods serve."""
    (old,) = of_kind(made(backend("pd")), api.Deployment).values()
    new = of_kind(made(disaggregated(backend, PREFILL, DECODE)), api.ModelServer)["m-pd"]["workloadSelector"]
    labels = old["template"]["metadata"]["labels"]
    assert {**new["matchLabels"], **new["pdGroup"]["decodeLabels"]}.items() <= labels.items()


def test_a_missing_role_is_a_problem(made, backend):
    """There is nothing that half of a backend could do."""
    children = made(disaggregated(backend, PREFILL), backend("b"))
    (problem,) = children.problems
    assert problem.field == "spec.backends[0].workers"
    assert "of type decode" in problem.message
    assert children.unbuilt == {"pd"}
    assert [child.name for child in children.children] == ["m-b", "m-b", "m"]


def test_two_connectors_are_a_problem(made, backend):
    """Prefill and decode could not talk to each other."""
    configs = [
        {"kv-transfer-config": {"kv_connector": name}} for name in ("NixlConnector", "LMCacheConnectorV1")
    ]
    children = made(
        disaggregated(backend, *({**w, "config": c} for w, c in zip((PREFILL, DECODE), configs, strict=True)))
    )
    (problem,) = children.problems
    assert problem.field == "spec.backends[0].workers"
    assert "lmcache and nixl" in problem.message


def test_replicas_are_those_of_the_workers(made, backend):
    """Each replica of the backend has so many workers of each role."""
    children = made(disaggregated(backend, PREFILL, DECODE | {"replicas": 3}, minReplicas=2, maxReplicas=2))
    found = {name: spec["replicas"] for name, spec in of_kind(children, api.Deployment).items()}
    assert found == {"m-pd-prefill": 2, "m-pd-decode": 6}


@pytest.mark.parametrize(("decode", "prefill"), [(0, 0), (3, 2), (4, 2), (5, 3)])
def test_other_workers_follow_the_one_that_is_scaled(made, backend, decode, prefill):
    """In proportion, rounded up; the number of the first is not ours."""
    observed = Observed(scaled={"m-pd-decode": decode})
    workers = (PREFILL, DECODE | {"replicas": 2})
    found = of_kind(made(disaggregated(backend, *workers), observed=observed), api.Deployment)
    assert "replicas" not in found["m-pd-decode"]
    assert found["m-pd-prefill"]["replicas"] == prefill


def test_workers_of_several_pods_are_groups(made, backend):
    """Only the first Pod of a group takes requests and has a sidecar; all of them have the weights."""
    worker = {"type": "server", "pods": 3, "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    spec = of_kind(made(backend(workers=[worker])), api.LeaderWorkerSet)["m-b"]
    group = spec["leaderWorkerTemplate"]
    assert group["size"] == 3
    templates = group["leaderTemplate"], group["workerTemplate"]
    assert [names.ENTRY in each["metadata"]["labels"] for each in templates] == [True, False]
    inits = [[init["name"] for init in each["spec"]["initContainers"]] for each in templates]
    assert inits == [["runtime", "download"], ["download"]]


def test_groups_have_short_names_without_dots(made, backend):
    """Their Pods have names in DNS."""
    worker = {"type": "server", "pods": 2, "config": {"tensor-parallel-size": 2}}
    (name,) = of_kind(made(backend("b" * 60, workers=[worker]), name="llama-3.1"), api.LeaderWorkerSet)
    assert len(name) <= 45
    assert name.startswith("llama-3-1-bbb")


def test_a_group_of_mindie_is_a_problem(made, backend):
    """It would need a table of ranks, which nobody makes."""
    children = made(backend(type="MindIE", workers=[{"type": "server", "pods": 2}]))
    (problem,) = children.problems
    assert problem.field == "spec.backends[0].workers[0].pods"
    assert not children.children


def test_only_pods_with_another_port_say_so(made, backend):
    """The ModelServer keeps its port, so that Pods of both revisions are reached."""
    plain, other = (
        made(backend(workers=[{"type": "server", "config": config}])) for config in ({}, {"port": 9000})
    )
    assert of_kind(plain, api.ModelServer) == of_kind(other, api.ModelServer)
    (before,), (after,) = (of_kind(each, api.Deployment).values() for each in (plain, other))
    assert "annotations" not in before["template"]["metadata"]
    assert after["template"]["metadata"]["annotations"] == {"headgate.dev/port": "9000"}


def test_another_served_name_leaves_the_server_alone(made, backend):
    """Engines serve the name of the Model as well, in every revision."""
    servers = [
        of_kind(made(backend(workers=[{"type": "server", "config": config}])), api.ModelServer)
        for config in ({}, {"served-model-name": "x"})
    ]
    assert servers[0] == servers[1]
    assert servers[0]["m-b"]["model"] == "m"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cacheURI": "hostpath:///etc"}, "cacheURI"),
        ({"cacheURI": "hostpath:///cache/../etc"}, "cacheURI"),
        ({"cacheURI": "pvc:///path"}, "cacheURI"),
        ({"modelURI": "pvc://Claim/path"}, "modelURI"),
        ({"env": [{"name": "A"}, {"name": "RUNTIME_PORT", "value": "x"}]}, "env[1]"),
        ({"env": [{"name": "RUNTIME_PORT", "value": "8000"}]}, "workers[0].config.port"),
        ({"workers": [{"type": "server", "config": [1]}]}, "workers[0].config"),
        ({"workers": [{"type": "server", "config": {"host": "::"}}]}, "workers[0].config.host"),
        ({"workers": [{"type": "server", "pods": 2}]}, "workers[0].config"),
        ({"loraAdapters": [{"name": "m", "artifactURL": "hf://x/y"}]}, "loraAdapters[0].name"),
        ({"type": "MindIE", "loraAdapters": [{"name": "a", "artifactURL": "hf://x/y"}]}, "loraAdapters"),
    ],
)
def test_what_cannot_be_done_is_said_at_its_field(made, backend, fields, field):
    """With a message for a person."""
    found = made(backend(**fields))
    (problem,) = found.problems
    assert problem.field == f"spec.backends[0].{field}"
    assert len(problem.message) > 20


def test_weights_of_a_claim_are_used_in_place(made, backend):
    """Nothing is downloaded, and the engine cannot change them."""
    (spec,) = of_kind(made(backend(modelURI="pvc://models/llama/8b")), api.Deployment).values()
    pod = spec["template"]["spec"]
    assert [init["name"] for init in pod["initContainers"]] == ["runtime"]
    engine = pod["containers"][0]
    assert engine["args"][1] == "/models/llama/8b"
    assert {"name": "claim-0", "mountPath": "/models", "readOnly": True} in engine["volumeMounts"]


def test_the_cache_may_be_the_claim_of_the_weights(made, backend):
    """It is mounted once."""
    fields = {
        "modelURI": "pvc://c/8b",
        "cacheURI": "pvc://c",
        "loraAdapters": [{"name": "a", "artifactURL": "hf://x"}],
    }
    (spec,) = of_kind(made(backend(**fields)), api.Deployment).values()
    claims = [v for v in spec["template"]["spec"]["volumes"] if "persistentVolumeClaim" in v]
    assert claims == [{"name": "b-weights", "persistentVolumeClaim": {"claimName": "c"}}]


def test_names_that_two_workers_would_have_differ(made, backend):
    """`x` has a worker that prefills; another backend is called `x-prefill`."""
    children = made(disaggregated(backend, PREFILL, DECODE) | {"name": "x"}, backend("x-prefill"))
    found = of_kind(children, api.Deployment)
    assert len(found) == 3
    assert {"m-x-prefill", "m-x-decode"} < found.keys()


def test_only_servers_of_mindie_download_the_weights(made, backend):
    """The controller and the coordinator do not read them. They may read other files of their volumes."""
    table = {"name": "GLOBAL_RANK_TABLE_FILE_PATH", "value": "/ranks/global.json"}
    workers = [{"type": role} for role in ("controller", "coordinator", "prefill", "decode")]
    children = made(backend(type="MindIEDisaggregated", workers=workers, env=[table])).children
    inits = {
        child.name: [each["name"] for each in child.manifest["spec"]["template"]["spec"]["initContainers"]]
        for child in children
        if child.kind is api.Deployment
    }
    assert inits == {
        "m-b-controller": ["runtime"],
        "m-b-coordinator": ["runtime"],
        "m-b-prefill": ["runtime", "download"],
        "m-b-decode": ["runtime", "download"],
    }
