"""A ModelServer with pdGroup: who prefills, who decodes, who is paired, and what is told of the others."""

import pytest

from headgate import api, routing
from headgate.api import marks

POOL = api.ObjectRef("ModelServer", "default", "pool")
GROUP = {"groupKey": "group", "prefillLabels": {"role": "prefill"}, "decodeLabels": {"role": "decode"}}


@pytest.fixture
def split(server):
    """Makes a ModelServer whose Pods have roles."""

    def make(group=GROUP, notes=None, **spec):
        selector = {"matchLabels": {"app": "pool"}, "pdGroup": group}
        made = server(workloadSelector=selector, **spec)
        made.metadata.annotations.update(notes or {})
        return made

    return make


@pytest.fixture
def member(pod):
    """Makes a Pod with a role and a group."""

    def make(name, role=None, group=None, notes=None):
        labels = {"app": "pool"} | ({"role": role} if role else {}) | ({"group": group} if group else {})
        return pod(name, metadata={"labels": labels, "annotations": notes or {}})

    return make


def translated(server, *pods):
    snapshot = routing.translate([], [server], pods)
    return snapshot.pools[POOL], snapshot.problems


def test_pods_have_the_role_and_group_of_their_labels(split, member):
    """The labels of a role come on top of matchLabels; the group is the value of the label groupKey."""
    pool, problems = translated(split(), member("p", "prefill", "g1"), member("d", "decode", "g1"))
    roles = {endpoint.name: role for endpoint, role in pool.phases.roles.items()}
    assert roles["default/p"] == routing.Role(prefills=True, decodes=False, group="g1")
    assert roles["default/d"] == routing.Role(prefills=False, decodes=True, group="g1")
    assert [endpoint.name for endpoint in pool.answering] == ["default/d"]
    assert problems == ()


def test_a_pool_without_pd_group_is_as_ever(server, member):
    """Whatever labels its Pods have, each serves whole requests."""
    pool, problems = translated(server(), member("p", "prefill", "g1"), member("d", "decode", "g1"))
    assert (pool.phases, pool.answering, problems) == (None, pool.endpoints, ())


def test_pods_without_a_role_are_left_out_and_told(split, member):
    """They would get prompts that nobody meant for them."""
    pods = [member("p", "prefill", "g"), member("d", "decode", "g"), member("x"), member("y", "router", "g")]
    pool, problems = translated(split(), *pods)
    assert {endpoint.name for endpoint in pool.endpoints} == {"default/p", "default/d"}
    (problem,) = problems
    assert (problem.field, problem.reason) == ("spec.workloadSelector.pdGroup", "PodWithoutRole")
    assert "2 Pods default/x, default/y has neither prefillLabels nor decodeLabels" in problem.message


def test_groups_without_one_of_the_roles_are_told(split, member):
    """Their decode Pods serve alone, their prefill Pods wait: both are news to their owner."""
    pods = [member("d1", "decode", "g1"), member("p2", "prefill", "g2")]
    pool, problems = translated(split(), *pods)
    assert {problem.reason for problem in problems} == {"GroupIncomplete"}
    assert [problem.message for problem in problems] == [
        "no Pod to prefill is ready in group=g1: prompts are prefilled where possible by those that decode",
        "no Pod to decode is ready in group=g2: those that prefill get no requests",
    ]
    assert [endpoint.name for endpoint in pool.answering] == ["default/d1"]


def test_pods_without_a_group_are_told(split, member):
    """They are paired with nobody, not with each other."""
    pool, problems = translated(split(), member("p", "prefill"), member("d", "decode"))
    assert [role.group for role in pool.phases.roles.values()] == [None, None]
    (problem,) = problems
    assert (problem.field, problem.reason) == ("spec.workloadSelector.pdGroup.groupKey", "PodWithoutGroup")
    assert "set it to the name of a group" in problem.message


def test_roles_without_labels_fit_nobody(split, member):
    """Every Pod would have them by accident."""
    pool, problems = translated(split({"groupKey": "group"}), member("p", "prefill", "g"))
    assert pool.endpoints == ()
    assert [problem.reason for problem in problems] == ["PodWithoutRole"]


def test_a_pod_may_have_both_roles(split, member):
    """One that serves whole requests helps both sides."""
    group = GROUP | {"decodeLabels": {"app": "pool"}}
    pool, _ = translated(split(group), member("p", "prefill", "g"))
    (role,) = pool.phases.roles.values()
    assert role.prefills
    assert role.decodes


@pytest.mark.parametrize(
    ("engine", "connector", "used"),
    [
        ("vLLM", None, "http"),
        ("vLLM", {}, "http"),
        ("vLLM", {"type": "lmcache"}, "lmcache"),
        ("vLLM", {"type": "nixl"}, "nixl"),
        ("vLLM", {"type": "mooncake"}, "mooncake"),
        ("SGLang", None, "sglang"),
        ("SGLang", {"type": "nixl"}, "sglang"),
        ("SGLang", {"type": "mooncake"}, "sglang"),
        ("SGLang", {"type": "lmcache"}, "lmcache"),
    ],
)
def test_which_connector_is_used(split, engine, connector, used):
    """SGLang pairs its servers by its bootstrap; nixl and mooncake only say what carries the cache there."""
    spec = {"inferenceEngine": engine} | ({} if connector is None else {"kvConnector": connector})
    assert translated(split(**spec))[0].phases.connector == used


@pytest.mark.parametrize(("written", "port", "told"), [(None, 8998, 0), ("9000", 9000, 0), ("x", 8998, 1)])
def test_the_bootstrap_port_of_a_prefill_pod(split, member, written, port, told):
    """An annotation says it, else it is SGLang's default; what is no port is told."""
    notes = {marks.BOOTSTRAP_PORT: written} if written else {}
    pods = [member("p", "prefill", "g", notes), member("d", "decode", "g", {marks.BOOTSTRAP_PORT: "x"})]
    pool, problems = translated(split(), *pods)
    assert {role.bootstrap_port for role in pool.phases.roles.values() if role.prefills} == {port}
    assert len(problems) == told


@pytest.mark.parametrize(("written", "tokens", "told"), [("0", 0, 0), ("2048", 2048, 0), ("-1", None, 1)])
def test_the_threshold_of_a_server(split, written, tokens, told):
    """An annotation sets it for one ModelServer; what is no number is told, and the gateway's counts."""
    pool, problems = translated(split(notes={marks.REMOTE_PREFILL_TOKENS: written}))
    assert pool.phases.remote_tokens == tokens
    assert len(problems) == told


def test_ports_of_the_roles_may_differ(split, pod):
    """Without a port of the ModelServer each Pod's own counts."""

    def listening(name, role, port):
        labels = {"app": "pool", "role": role, "group": "g"}
        spec = {"containers": [{"name": "c", "ports": [{"containerPort": port}]}]}
        return pod(name, metadata={"labels": labels}, spec=spec)

    pool, _ = translated(split(), listening("p", "prefill", 8100), listening("d", "decode", 8200))
    assert {endpoint.name: endpoint.port for endpoint in pool.endpoints} == {
        "default/p": 8100,
        "default/d": 8200,
    }
