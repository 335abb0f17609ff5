"""What a ModelServer's conditions say, case by case."""

import msgspec
import pytest

from headgate.api.kthena_networking import PDGroup

LLM = {"app": "llm"}


def test_ready_pods_are_counted(kit):
    """Ready counts the Pods that gateways send requests to, out of all that are selected."""
    pods = [kit.pod(f"p{n}", LLM | {"n": str(n)}, ready=n < 2) for n in range(4)]
    found = kit.conditions(kit.server("s", LLM), *pods, kit.pod("x", {"app": "other"}))
    assert found["Ready"] == ("True", "EndpointsReady", "2 of 4 Pods ready")
    assert found["ResolvedRefs"][:2] == ("True", "ResolvedRefs")
    assert found["Accepted"][:2] == ("True", "Accepted")


def test_no_ready_pod_is_not_ready(kit):
    """Pods that are selected but not ready resolve the reference and no more."""
    found = kit.conditions(kit.server("s", LLM), kit.pod("p", LLM, ready=False))
    assert found["ResolvedRefs"][0] == "True"
    assert found["Ready"] == ("False", "NoReadyEndpoints", "0 of 1 Pods ready")


def test_a_selector_without_pods_names_its_labels(kit):
    """ResolvedRefs says which labels were looked for and where; Pods of other namespaces don't count."""
    found = kit.conditions(
        kit.server("s", LLM | {"tier": "a"}), kit.pod("p", LLM | {"tier": "a"}, namespace="o")
    )
    assert found["ResolvedRefs"] == (
        "False",
        "NoPodsSelected",
        "No Pod in namespace default has the labels app=llm, tier=a",
    )
    assert found["Ready"][:2] == ("False", "NoReadyEndpoints")


def test_an_empty_selector_selects_nothing(kit):
    """An empty selector is an error that has its own reason, not a claim on every Pod."""
    found = kit.conditions(kit.server("s", {}), kit.pod("p", LLM))
    assert found["ResolvedRefs"][:2] == ("False", "EmptySelector")
    assert found["Ready"] == ("False", "NoReadyEndpoints", "0 of 0 Pods ready")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_are_not_missed(kit, phase):
    """An evicted Pod that lies around is not one of those that should be ready."""
    found = kit.conditions(
        kit.server("s", LLM), kit.pod("p", LLM), kit.pod("e", LLM, ready=False, phase=phase)
    )
    assert found["Ready"][2] == "1 of 1 Pods ready"


def test_pods_on_their_way_out_are_not_missed(kit):
    """A Pod that is being deleted is neither ready nor one of those that should be."""
    leaving = kit.pod("l", LLM)
    meta = msgspec.structs.replace(leaving.metadata, deletion_timestamp=kit.now)
    leaving = msgspec.structs.replace(leaving, metadata=meta)
    found = kit.conditions(kit.server("s", LLM), kit.pod("p", LLM), leaving)
    assert found["Ready"][2] == "1 of 1 Pods ready"


def test_a_bad_duration_is_not_accepted(kit):
    """A timeout that gateways ignore is named with its field path; the Pods serve all the same."""
    found = kit.conditions(kit.server("s", LLM, timeout="soon"), kit.pod("p", LLM))
    assert found["Accepted"][:2] == ("False", "InvalidDuration")
    assert found["Accepted"][2].startswith("spec.trafficPolicy.timeout: 'soon'")
    assert found["Ready"][0] == "True"


def with_roles(server):
    """The server, with Pods that prefill and Pods that decode."""
    group = PDGroup(group_key="group", prefill_labels={"role": "p"}, decode_labels={"role": "d"})
    selector = msgspec.structs.replace(server.spec.workload_selector, pd_group=group)
    return msgspec.structs.replace(
        server, spec=msgspec.structs.replace(server.spec, workload_selector=selector)
    )


def test_pods_are_counted_by_role(kit):
    """Ready takes an endpoint that answers clients: those that only prefill are not enough."""
    server = with_roles(kit.server("s", LLM))
    prefill = kit.pod("p", LLM | {"role": "p", "group": "a"})
    decode = kit.pod("d", LLM | {"role": "d", "group": "a"})
    found = kit.conditions(server, prefill, decode)
    assert found["Ready"] == ("True", "EndpointsReady", "2 of 2 Pods ready: 1 prefill, 1 decode")
    assert found["ResolvedRefs"][0] == "True"
    found = kit.conditions(server, prefill)
    assert found["Ready"] == ("False", "NoReadyEndpoints", "1 of 1 Pods ready: 1 prefill, 0 decode")
    assert found["ResolvedRefs"][:2] == ("False", "GroupIncomplete")


def test_pods_that_take_no_part_are_told(kit):
    """A Pod without a role is not among those that are ready, and the condition names it."""
    server = with_roles(kit.server("s", LLM))
    pods = [kit.pod(role, LLM | {"role": role, "group": "a"}) for role in ("p", "d")]
    found = kit.conditions(server, *pods, kit.pod("x", LLM))
    assert found["Ready"][2] == "2 of 3 Pods ready: 1 prefill, 1 decode"
    assert found["ResolvedRefs"][:2] == ("False", "PodWithoutRole")
    assert "Pod default/x has neither prefillLabels nor decodeLabels" in found["ResolvedRefs"][2]
