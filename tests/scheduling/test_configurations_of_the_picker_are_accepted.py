"""EndpointPickerConfig files as guides ship them come to the profiles that they mean."""

import random

import pytest
import yaml
from some_endpoints import Caches, endpoints, request

from headgate.scheduling import configuration
from headgate.scheduling.plugins import NoPrefixes

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


def read(text: str, **about) -> configuration.Reading:
    return configuration.read(yaml.safe_load(HEAD + text), **about)


def plan_of(text: str, **about) -> configuration.Plan:
    reading = read(text, **about)
    assert reading.plan is not None, reading.problems
    return reading.plan


def said(reading: configuration.Reading, severity: str) -> list[str]:
    return [f"{each.path}: {each.message}" for each in reading.problems if each.severity == severity]


def test_without_anything_there_are_the_default_scorers():
    """Queue 2, KV cache 2, prefix 3, the best total; S11 comes out of it."""
    plan = plan_of("plugins: []\n")
    profile = plan.profiles["default"]
    assert profile.scorers == (
        ("queue-scorer", 2.0),
        ("kv-cache-utilization-scorer", 2.0),
        ("prefix-cache-scorer", 3.0),
    )
    pool = endpoints({"waiting": 0, "kv": 0.5}, {"waiting": 10, "kv": 0.5})
    asked = request(blocks=4)
    choice = plan.policy(Caches(pool, [0, 4])).pick(asked, pool, 0.0, random.Random(1))
    assert choice is not None
    assert choice.load is pool[1]


def test_a_guides_baseline():
    """Weights, a renamed plugin, producers and data sources that the gateway has by itself."""
    reading = read("""
plugins:
- type: approx-prefix-cache-producer
  parameters: {lruCapacityPerServer: 31250}
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
  name: gpu
  parameters: {prefixMatchInfoProducerName: approx-prefix-cache-producer}
- type: no-hit-lru-scorer
- type: weighted-random-picker
- type: metrics-data-source
- type: core-metrics-extractor
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: gpu, weight: 3}
  - {pluginRef: no-hit-lru-scorer, weight: 2}
dataLayer:
  sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: core-metrics-extractor}]}]
requestHandler: {parsers: [{pluginRef: openai-parser}]}
""")
    assert reading.plan is not None, reading.problems
    profile = reading.plan.profiles["default"]
    assert [weight for _, weight in profile.scorers] == [2, 2, 3, 2]
    assert profile.picker == "weighted-random-picker"
    assert len(said(reading, "note")) == 3
    newest = configuration.read({"apiVersion": "llm-d.ai/v1", "kind": "EndpointPickerConfig", "plugins": []})
    assert newest.plan is not None
    assert said(reading, "warning") == []
    policy = reading.plan.policy(NoPrefixes())
    assert policy.uses_prefix
    assert [scorer.name for scorer, _ in policy.profile.scorers][2] == "gpu"


def test_without_profiles_one_has_all_plugins_with_weight_one():
    """Names default to types, weights to 1; a filter that scores is both."""
    profile = plan_of("plugins: [{type: load-aware-scorer}, {type: context-length-aware}]\n").profiles[
        "default"
    ]
    assert profile.filters == ("context-length-aware",)
    assert profile.scorers == (("load-aware-scorer", 1.0), ("context-length-aware", 1.0))
    assert profile.picker is None


def test_the_newest_baseline_of_affinity_and_token_load():
    """A filter and one scorer."""
    profile = plan_of("plugins: [{type: prefix-cache-affinity-filter}, {type: token-load-scorer}]\n")
    assert profile.profiles["default"].filters == ("prefix-cache-affinity-filter",)


PREFILL_DECODE = """
plugins:
- {type: prefill-filter}
- {type: decode-filter}
- {type: queue-scorer}
- {type: active-request-scorer}
- {type: prefix-cache-scorer}
- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 512}}
- type: disagg-profile-handler
  parameters: {deciders: {prefill: DECIDER}}
schedulingProfiles:
- name: prefill
  plugins:
  - {pluginRef: prefill-filter}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: queue-scorer}
- name: decode
  plugins: [{pluginRef: decode-filter}, {pluginRef: active-request-scorer, weight: 2}]
"""


def test_prefill_and_decode_have_profiles_of_their_own():
    """Each phase is picked by its profile; the decider's threshold is when they are apart."""
    plan = plan_of(PREFILL_DECODE.replace("DECIDER", "prefix-based-pd-decider"))
    policy = plan.policy(NoPrefixes())
    assert policy.remote_tokens == 512
    pool = endpoints({"labels": {"llm-d.ai/role": "prefill"}}, {"labels": {"llm-d.ai/role": "decode"}})
    rng = random.Random(1)
    for role, place in (("prefill", 0), ("decode", 1), ("", 1)):
        asked = request()
        asked.role = role
        choice = policy.pick(asked, pool, 0.0, rng)
        assert choice is not None
        assert choice.load is pool[place]


def test_the_older_handler_prefills_elsewhere_from_its_threshold_on():
    """A threshold of 0 is always, as an operator that writes such files means it."""
    text = """
plugins:
- {type: prefill-header-handler}
- {type: prefill-filter}
- {type: decode-filter}
- {type: queue-scorer}
- {type: pd-profile-handler, parameters: {threshold: %d}}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: queue-scorer, weight: 1.0}]}
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer, weight: 1.0}]}
"""
    for threshold in (0, 100):
        assert plan_of(text % threshold).policy(NoPrefixes()).remote_tokens == threshold


@pytest.mark.parametrize("deciding", ["{}", "{deciders: {}}"])
def test_without_a_decider_nothing_is_prefilled_elsewhere(deciding):
    """B48: the decode profile serves alone."""
    text = PREFILL_DECODE.replace("{deciders: {prefill: DECIDER}}", deciding)
    assert plan_of(text).policy(NoPrefixes()).remote_tokens > 10**9


def test_deprecated_names_work_with_a_warning():
    """Older plugins, the older API group, and the parts that have moved."""
    document = yaml.safe_load("""
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: by-label-selector, parameters: {matchLabels: {a: b}}}
- {type: by-label, name: old, parameters: {label: a, validValues: [b]}}
- {type: tokenizer, parameters: {modelName: m}}
- {type: queue-scorer}
saturationDetector: {pluginRef: utilization-detector}
parser: {pluginRef: openai-parser}
""")
    reading = configuration.read(document)
    assert reading.plan is not None, reading.problems
    assert said(reading, "warning")[0] == ("apiVersion: inference.networking.x-k8s.io/v1alpha1 is deprecated")
    assert len(said(reading, "warning")) == 6
    assert reading.plan.profiles["default"].filters == ("by-label-selector", "old")


EARLY = """
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: queue}
- {type: kv-cache-scorer}
- type: prefix-cache
  parameters: {hashBlockSize: 64, maxPrefixBlocksToMatch: 256, lruCapacityPerServer: 31250}
- {type: max-score, parameters: {maxNumOfEndpoints: 1}}
- {type: single-profile}
saturationDetector: {queueDepthThreshold: 10, kvCacheUtilThreshold: 0.8, metricsStalenessThreshold: 150ms}
data: {sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: model-server-protocol-metrics}]}]}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue}
  - {pluginRef: kv-cache-scorer}
  - {pluginRef: prefix-cache, weight: 3}
  - {pluginRef: max-score}
"""


def test_files_of_the_first_releases_work_with_a_warning():
    """Plugins by the names that they had, and the detector's thresholds where they stood."""
    reading = configuration.read(yaml.safe_load(EARLY))
    assert reading.plan is not None, reading.problems
    profile = reading.plan.profiles["default"]
    assert profile.scorers == (("queue", 1.0), ("kv-cache-scorer", 1.0), ("prefix-cache", 3.0))
    assert [plan.kind.kind for plan in reading.plan.plugins.values()] == [
        "queue-scorer",
        "kv-cache-utilization-scorer",
        "prefix-cache-scorer",
        "max-score-picker",
    ]
    assert [line.partition(":")[0] for line in said(reading, "warning")] == [
        "apiVersion",
        *(f"plugins[{at}].type" for at in range(5)),
        "saturationDetector",
        "data",
    ]


def test_what_has_no_effect_is_said():
    """Gates, plugins for what the gateway does not do, and parameters that it does not need."""
    reading = read("""
featureGates: [enableLegacyMetrics]
plugins:
- {type: queue-scorer}
- {type: file-discovery}
- {type: prefix-cache-affinity-filter, parameters: {prefillCalibrationFile: /etc/x.json}}
dataLayer: {discovery: {pluginRef: file-discovery}}
""")
    assert reading.plan is not None, reading.problems
    assert [line.partition(":")[0] for line in said(reading, "warning")] == [
        "featureGates[0]",
        "plugins[1].type",
        "dataLayer.discovery",
    ]
    assert said(reading, "note") == [
        "plugins[2].parameters.prefillCalibrationFile: without effect: say peakPrefillThroughput, or "
        "ttftSource: latencyPredictor, which learns it"
    ]


def test_parameters_that_would_be_missed_are_warned_of():
    """A session's cookie is named elsewhere; the size of a producer's cache is nothing to miss."""
    reading = read("""
plugins:
- {type: session-id-producer, parameters: {cookieName: sid}}
- {type: approx-prefix-cache-producer, parameters: {lruCapacityPerServer: 9}}
""")
    (warning,) = [each for each in reading.problems if each.severity == "warning"]
    assert warning.path == "plugins[0].parameters"
    assert warning.suggestion == "name header or cookie in its sessionIdConfig.sources"


def test_experimental_plugins_are_allowed_expressly():
    """With the setting, alpha plugins are as good as any."""
    text = "plugins: [{type: session-affinity-scorer}]\n"
    assert read(text).plan is None
    plan = plan_of(text, allow_alpha=True)
    assert plan.policy(NoPrefixes()).marks_responses


def test_policies_of_one_plan_share_nothing():
    """Each pool has plugins of its own, which the profiles of its policy share."""
    plan = plan_of("plugins: [{type: no-hit-lru-scorer}]\n")
    first, second = plan.policy(NoPrefixes()), plan.policy(NoPrefixes())
    assert first.profile.scorers[0][0] is not second.profile.scorers[0][0]
    shared = plan_of(PREFILL_DECODE.replace("DECIDER", "prefix-based-pd-decider")).policy(NoPrefixes())
    assert shared.prefill is not shared.profile


def test_a_plan_is_shown_with_all_its_parameters():
    """Who asks what is in effect sees defaults too."""
    shown = plan_of("plugins: [{type: load-aware-scorer}, {type: max-score-picker}]\n").shown()
    assert shown["plugins"][0] == {
        "name": "load-aware-scorer",
        "type": "load-aware-scorer",
        "parameters": {"threshold": 128},
    }
    assert shown["profiles"][0]["scorers"] == [{"name": "load-aware-scorer", "weight": 1.0}]


SESSIONS = """
plugins:
- {type: session-affinity-filter, name: decode-session}
- type: session-affinity-filter
  name: prefill-session
  parameters: {encodedEndpointHeaderConfig: {header: x-session-token-prefill}, profileName: prefill}
- {type: topology-affinity-scorer}
- {type: always-disagg-pd-decider}
- {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-session}, {pluginRef: topology-affinity-scorer}]}
- {name: decode, plugins: [{pluginRef: decode-session}]}
"""


def test_both_endpoints_of_a_request_are_pinned_by_tokens_of_their_own():
    """B47: the answer has a token for each phase, and the next request goes to both again."""
    host = "kubernetes.io/hostname"
    pool = endpoints(*({"labels": {host: name}} for name in ("h1", "h2", "h2", "h3")))
    policy = plan_of(SESSIONS, allow_alpha=True).policy(NoPrefixes())
    assert policy.remote_tokens == 0
    rng = random.Random(3)

    def picked(role: str, peer=None, **headers: str):
        asked = request(**headers)
        asked.role, asked.peer = role, peer
        choice = policy.pick(asked, pool, 0.0, rng)
        assert choice is not None
        return choice, dict(policy.marks(asked, choice))

    decode, marks = picked("decode")
    assert set(marks) == {b"x-session-token"}
    prefill, prefill_marks = picked("prefill", peer=pool[1])
    assert set(prefill_marks) == {b"x-session-token-prefill"}
    assert prefill.load in pool[1:3], "the nearest to the one that decodes"
    tokens = {
        name.decode().replace("-", "_"): value.decode() for name, value in (marks | prefill_marks).items()
    }
    for _ in range(5):
        assert picked("decode", **tokens)[0].load is decode.load
        assert picked("prefill", peer=pool[3], **tokens)[0].load is prefill.load
