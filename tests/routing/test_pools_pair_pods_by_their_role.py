"""An InferencePool whose Pods say by the label llm-d.ai/role whether they prefill, decode, or do both."""

import pytest

from headgate import routing

PREFILL, DECODE = "prefill", "decode"


@pytest.fixture
def made(kit):
    """The pool of Pods named by place and role, and what is told of it; an empty role is no label."""

    def make(*roles, notes=None, of_pods=None, ports=(8000,)):
        pods = []
        for place, role in enumerate(roles):
            labels = {"app": "pool"} | ({"llm-d.ai/role": role} if role else {})
            metadata = {"labels": labels, "annotations": of_pods or {}}
            pods.append(kit.pod(f"{place}-{role or 'none'}", f"10.0.0.{place + 1}", metadata=metadata))
        snapshot = kit.translated(kit.pool("pool", *ports, notes=notes), *pods)
        told = [(problem.reason, problem.message) for problem in snapshot.problems]
        return snapshot.pools[kit.ref()], told

    return make


@pytest.mark.parametrize(
    ("label", "prefills", "decodes"),
    [
        ("prefill", True, False),
        ("encode-prefill", True, False),
        ("decode", False, True),
        ("", False, True),
        ("both", True, True),
        ("prefill-decode", True, True),
        ("encode-prefill-decode", True, True),
    ],
)
def test_the_label_says_what_a_pod_does(made, label, prefills, decodes):
    """Beside Pods that leave one phase to others, those without the label decode."""
    pool, told = made(label, PREFILL, DECODE)
    role = pool.phases.roles[pool.endpoints[0]]
    assert (role.prefills, role.decodes) == (prefills, decodes)
    assert {role.group for role in pool.phases.roles.values()} == {"pool"}
    assert told == []


@pytest.mark.parametrize("labels", [("", ""), ("both", "both"), ("both", "")])
def test_where_no_pod_leaves_a_phase_to_others_each_serves_whole_requests(made, labels):
    """The pool is as ever."""
    pool, told = made(*labels)
    assert (pool.phases, len(pool.answering), told) == (None, 2, [])


def test_every_port_of_a_pod_has_its_role(made):
    """Ranks prefill or decode as their Pod does, and any two are paired."""
    pool, _ = made(PREFILL, DECODE, ports=(8000, 8001))
    assert [pool.phases.roles[each].prefills for each in pool.endpoints] == [True, True, False, False]
    assert [each.name for each in pool.answering] == ["default/1-decode-rank-0", "default/1-decode-rank-1"]


def test_pods_of_other_roles_get_no_requests_and_are_told(made):
    """One that only encodes, or whose label says nothing that is known."""
    pool, told = made(PREFILL, DECODE, "encode", "prefil")
    assert [endpoint.name for endpoint in pool.endpoints] == ["default/0-prefill", "default/1-decode"]
    assert told == [
        (
            "PodWithoutRole",
            "Each of the 2 Pods default/2-encode, default/3-prefil has a label llm-d.ai/role that says "
            "neither prefill nor decode and gets no requests",
        )
    ]


@pytest.mark.parametrize(
    ("label", "told"),
    [
        (DECODE, "no Pod to prefill is ready: prompts are prefilled where possible by those that decode"),
        (PREFILL, "no Pod to decode is ready: those that prefill get no requests"),
    ],
)
def test_a_phase_without_a_pod_is_told(made, label, told):
    """Those that decode serve alone, those that prefill wait."""
    pool, problems = made(label)
    assert problems == [("GroupIncomplete", told)]
    assert len(pool.answering) == (label == DECODE)


@pytest.mark.parametrize(
    ("notes", "connector"),
    [
        ({}, "nixl"),
        ({"headgate.dev/kv-connector": "lmcache"}, "lmcache"),
        ({"headgate.dev/engine": "SGLang"}, "sglang"),
        ({"headgate.dev/engine": "SGLang", "headgate.dev/kv-connector": "mooncake"}, "sglang"),
        ({"headgate.dev/engine": "SGLang", "headgate.dev/kv-connector": "http"}, "http"),
    ],
)
def test_an_annotation_names_the_connector(made, notes, connector):
    """As kvConnector of a ModelServer does; nixl, as where the label comes from, without it."""
    pool, told = made(PREFILL, DECODE, notes=notes)
    assert (pool.phases.connector, told) == (connector, [])


def test_other_annotations_are_those_of_model_servers(made):
    """The threshold of the pool, and the port of a Pod where SGLang gives its cache away."""
    pool, told = made(
        PREFILL,
        DECODE,
        notes={"headgate.dev/remote-prefill-tokens": "64"},
        of_pods={"headgate.dev/bootstrap-port": "9100"},
    )
    first, second = pool.endpoints
    assert pool.phases.remote_tokens == 64
    assert pool.phases.roles[first] == routing.Role(
        prefills=True, decodes=False, group="pool", bootstrap_port=9100
    )
    assert pool.phases.roles[second] == routing.Role(prefills=False, decodes=True, group="pool")
    assert told == []


def test_annotations_that_say_nothing_clear_are_told(made):
    """What counts instead is told with them."""
    notes = {"headgate.dev/kv-connector": "nixlv2", "headgate.dev/remote-prefill-tokens": "few"}
    pool, told = made(PREFILL, DECODE, notes=notes)
    assert (pool.phases.connector, pool.phases.remote_tokens) == ("nixl", None)
    assert [reason for reason, _ in told] == ["InvalidAnnotation", "InvalidAnnotation"]
    assert told[0][1].startswith("'nixlv2' is none of http, lmcache, nixl, mooncake")
