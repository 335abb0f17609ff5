import random

from headgate.fleet.prefix import PrefixIndex
from headgate.scheduling import LeastWork, configuration
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.simulator.model import PROFILES
from headgate.traffic.workloads import WORKLOADS

AFFINITY = {
    "apiVersion": "llm-d.ai/v1alpha1",
    "kind": "EndpointPickerConfig",
    "plugins": [{"type": "session-affinity-filter", "parameters": {"strategy": "session_id"}}],
    "schedulingProfiles": [{"name": "default", "plugins": [{"pluginRef": "session-affinity-filter"}]}],
}


def endpoints_of_sessions(policy, index: PrefixIndex) -> list[int]:
    """Of each conversation of several turns, how many endpoints had one of them."""
    requests = WORKLOADS["chat"](requests=200, think_s=2).generate(random.Random(1))
    group = EngineGroup(name="e", engine=PROFILES["fast"].config, count=4)
    run = run_fleet(requests, FleetDescription(groups=(group,)), policy, seed=1, prefixes=index)
    had: dict[int, list[str]] = {}
    for record in run.records:
        had.setdefault(record.session, []).append(record.endpoint)
    return [len(set(endpoints)) for endpoints in had.values() if len(endpoints) > 1]


def test_a_policy_by_sessions_keeps_each_conversation_at_one_endpoint():
    """The session of a trace is told as clients tell it; a policy that does not ask spreads them."""
    plan = configuration.read(AFFINITY, allow_alpha=True).plan
    index = PrefixIndex()
    kept = endpoints_of_sessions(plan.policy(index), index)
    assert len(kept) > 20
    assert set(kept) == {1}
    assert max(endpoints_of_sessions(LeastWork(), PrefixIndex())) > 1
