"""Whatever a valid Model says, its objects are valid, have unique names and refer to each other."""

import json
import tempfile

import goldens
import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from headgate import api
from headgate.cli.manifests import read
from headgate.cli.validation import judging
from headgate.cli.validation.kinds import Kinds
from headgate.controllers.model import ModelSettings, Observed, children_of, names

KINDS = Kinds()
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
LONG = st.integers(1, 253).map("b".__mul__)
BACKENDS = NAMES | LONG
MODELS = NAMES | st.from_regex(r"[a-z0-9]{1,4}(\.[a-z0-9]{1,4}){1,3}", fullmatch=True) | LONG
URIS = st.sampled_from(["hf://org/model", "s3://bucket/x", "pvc://claim/8b", "pvc://claim", "pvc://usr"])
CACHES = st.sampled_from([None, "hostpath:///cache", "hostpath://a/b/", "pvc://claim", "pvc://my.claim/x"])
CONFIGS = st.sampled_from(
    [
        None,
        {},
        {"port": 9000},
        {"served_model_name": ["x", "y"], "max-model-len": 10**6, "x": None},
        {"kv-transfer-config": {"kv_connector": "LMCacheConnectorV1"}},
        {"tensor-parallel-size": 2, "tp-size": 2},
    ]
)
POLICY = {"metrics": [{"metricName": "load", "targetValue": 5}]}
ROLES = {
    "vLLM": ["server"],
    "SGLang": ["server"],
    "MindIE": ["server"],
    "vLLMDisaggregated": ["prefill", "decode"],
    "MindIEDisaggregated": ["controller", "coordinator", "prefill", "decode"],
}
ENV = [
    {"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "true"},
    {"name": "GLOBAL_RANK_TABLE_FILE_PATH", "value": "/ranks"},
    {"name": "POD_IP", "value": "127.0.0.1"},
    {"name": "RUNTIME_PORT", "value": "8200"},
]


@st.composite
def backends(draw, name, scaled):
    kind = draw(st.sampled_from(list(ROLES)))
    roles = [*ROLES[kind]]
    if len(roles) > 1:
        roles += draw(st.lists(st.sampled_from(roles), max_size=2))
    workers = [
        {
            "type": role,
            "replicas": draw(st.sampled_from([None, 1, 3])),
            "pods": draw(st.sampled_from([None, 1, 1, 2])),
            "config": draw(CONFIGS),
            "resources": draw(st.sampled_from([{}, {"limits": {"nvidia.com/gpu": "2"}}])),
        }
        for role in roles
    ]
    least = draw(st.integers(0, 3))
    most = draw(st.integers(max(least, 1), 4)) if scaled else max(least, 1)
    found = {
        "name": name,
        "type": kind,
        "modelURI": draw(URIS),
        "cacheURI": draw(CACHES),
        "minReplicas": least if scaled else most,
        "maxReplicas": most,
        "routeWeight": draw(st.integers(0, 100)),
        "env": draw(st.lists(st.sampled_from(ENV), unique_by=lambda each: each["name"])),
        "workers": [{key: value for key, value in worker.items() if value is not None} for worker in workers],
        "loraAdapters": [
            {"name": adapter, "artifactURL": f"hf://org/{adapter[:20]}"}
            for adapter in draw(st.lists(NAMES, unique=True, max_size=14))
        ],
        **({"scalingCost": draw(st.integers(1, 9))} if scaled else {}),
    }
    return {key: value for key, value in found.items() if value is not None}


@st.composite
def models(draw):
    scaled = draw(st.booleans())
    named = draw(st.lists(BACKENDS, min_size=1, max_size=3, unique=True))
    return {
        "apiVersion": "registry.volcano.sh/v1alpha1",
        "kind": "Model",
        "metadata": {"name": draw(MODELS), "namespace": "default"},
        "spec": {
            "backends": [draw(backends(name, scaled)) for name in named],
            **({"autoscalingPolicy": POLICY} if scaled else {}),
            **draw(st.sampled_from([{}, {"name": "called"}, {"modelMatch": {"uri": {"prefix": "/v1"}}}])),
        },
    }


def faults(manifests):
    """Errors of an API server. LeaderWorkerSets are not of Headgate: their Pods are judged."""
    judged = []
    for manifest in manifests:
        if manifest["kind"] == "LeaderWorkerSet":
            msgspec.convert(manifest, api.LeaderWorkerSet)
            group = manifest["spec"]["leaderWorkerTemplate"]
            for role in ("leaderTemplate", "workerTemplate"):
                metadata = {
                    **group[role]["metadata"],
                    "name": f"{manifest['metadata']['name']}-{role.lower()}",
                }
                judged.append({"apiVersion": "v1", "kind": "Pod", **group[role], "metadata": metadata})
        else:
            judged.append(manifest)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write("\n---\n".join(json.dumps(manifest) for manifest in judged))
        file.flush()
        reading = read([file.name])
    assert not reading.problems
    found = judging.judge(reading.manifests, KINDS)
    return [str(finding) for finding in found if finding.severity == "error"]


@given(models(), st.data())
def test_objects_are_valid_and_refer_to_each_other(manifest, data):
    """The rules are those of an API server."""
    assume(not faults([manifest]))
    model = goldens.stored(manifest)
    first = children_of(model, ModelSettings(), Observed())
    workloads = [c.name for c in first.children if c.kind in (api.Deployment, api.LeaderWorkerSet)]
    ready = data.draw(
        st.dictionaries(st.sampled_from(workloads), st.integers(0, 2)) if workloads else st.just({})
    )
    children = children_of(model, ModelSettings(), Observed(ready=ready))
    made = children.children
    assert not faults([child.manifest for child in made])
    identities = [(child.kind, child.name) for child in made]
    assert len(set(identities)) == len(identities)
    of_pods = [c.name for c in made if c.kind in (api.Deployment, api.LeaderWorkerSet)]
    assert len(set(of_pods)) == len(of_pods)
    servers = {child.name for child in made if child.kind is api.ModelServer}
    for child in made:
        msgspec.convert(child.manifest, child.kind)
        if child.kind is api.ModelRoute:
            kept = {names.of_backend(model, name) for name in children.unbuilt}
            for rule in child.manifest["spec"]["rules"]:
                named = {target["modelServerName"] for target in rule["targetModels"]}
                assert named
                # Those of a backend that cannot be made may be there from before.
                assert named <= servers or (named <= kept and (rule["name"] != "default" or not servers))
    built = {backend["name"] for backend in manifest["spec"]["backends"]} - children.unbuilt
    assert len(servers) == len(built)
    if children.unbuilt:
        assert children.problems
    for problem in children.problems:
        assert problem.field.startswith("spec.backends")


@given(models())
def test_every_adapter_is_in_one_route(manifest):
    """Of those that its backend can serve, in a Model that has a route: one that can never run has none."""
    assume(not faults([manifest]))
    children = children_of(goldens.stored(manifest), ModelSettings(), Observed())
    assume(children.unbuilt < {backend["name"] for backend in manifest["spec"]["backends"]})
    listed = [
        a
        for c in children.children
        if c.kind is api.ModelRoute
        for a in c.manifest["spec"].get("loraAdapters", [])
    ]
    assert len(set(listed)) == len(listed)
    wanted = {
        adapter["name"]
        for backend in manifest["spec"]["backends"]
        if not backend["type"].startswith("MindIE")
        for adapter in backend["loraAdapters"]
        if adapter["name"] != manifest["metadata"]["name"]
    }
    assert set(listed) == wanted
