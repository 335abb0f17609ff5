"""`flowControl` of an EndpointPickerConfig."""

import pytest
import yaml

from headgate.flow.capacity import CapacitySettings
from headgate.flow.configuration import read

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


def reading(text: str, *, allow_alpha: bool | None = True):
    return read(yaml.safe_load(HEAD + text), allow_alpha=allow_alpha)


def queueing(text: str):
    found = reading(text)
    assert found.queueing is not None, found.problems
    return found.queueing


def test_every_field_has_its_effect():
    """Amounts are quantities, times are Go's, plugins are named by their own names."""
    found = queueing("""
featureGates: [flowControl]
plugins:
- type: concurrency-detector
  name: gate
  parameters: {mode: hybrid, maxConcurrency: 132, maxTokenConcurrency: 900000}
- {type: priority-holdback-policy, name: hold, parameters: {minCeiling: 0.5, domain: value}}
- {type: round-robin-fairness-policy, name: rr}
flowControl:
  maxBytes: 10Gi
  maxRequests: "1k"
  defaultRequestTTL: 1m30s
  noEndpointRequestTTL: 5s
  enableEviction: true
  usageLimitPolicyPluginRef: hold
  saturationDetector: {pluginRef: gate}
  defaultPriorityBand: {orderingPolicyRef: edf-ordering-policy}
  defaultNegativePriorityBand: {maxRequests: 7}
  priorityBands:
  - {priority: 100, maxRequests: "500", maxBytes: 1Mi, fairnessPolicyRef: rr}
""")
    flow, capacity = found.flow, found.capacity
    assert (flow.max_bytes, flow.max_requests, flow.ttl_s, flow.no_endpoint_ttl_s) == (10 << 30, 1000, 90, 5)
    assert flow.evicts_running
    high, low, usual = flow.band_of(100), flow.band_of(-3), flow.band_of(3)
    assert (high.max_requests, high.max_bytes) == (500, 1 << 20)
    assert (high.fairness, high.ordering) == ("round-robin-fairness-policy", "fcfs-ordering-policy")
    assert (low.max_requests, low.max_bytes) == (7, 1_000_000_000)
    assert (usual.ordering, usual.max_requests) == ("edf-ordering-policy", 5000)
    assert (capacity.detector, capacity.mode) == ("concurrency-detector", "hybrid")
    assert (capacity.max_requests, capacity.max_tokens) == (132, 900_000)
    ceilings = capacity.ceilings
    assert (ceilings.policy, ceilings.least, ceilings.most, ceilings.domain) == (
        "priority-holdback-policy",
        0.5,
        1.0,
        "value",
    )


def test_what_is_not_said_is_as_the_picker_has_it():
    """Strict order over tenants, a minute to live; only the detector is another, which is said."""
    found = reading("featureGates: [flowControl]")
    assert found.queueing is not None
    flow = found.queueing.flow
    assert (flow.ttl_s, flow.no_endpoint_ttl_s, flow.max_requests, flow.max_bytes) == (60, 60, 0, 0)
    assert flow.band_of(-1).fairness == "global-strict-fairness-policy"
    assert found.queueing.capacity.detector == "predicted-work"
    assert "flowControl.saturationDetector" in [each.path for each in found.problems]


def test_a_detector_that_reads_engines():
    """Its thresholds, and how old a reading may be; the older place for it counts too."""
    found = queueing("""
featureGates: [flowControl]
plugins:
- type: utilization-detector
  parameters: {queueDepthThreshold: 8, kvCacheUtilThreshold: 0.9, metricsStalenessThreshold: 5s}
saturationDetector: {pluginRef: utilization-detector}
""")
    capacity = found.capacity
    assert (capacity.detector, capacity.queue_depth, capacity.kv_usage, capacity.stale_s) == (
        "utilization-detector",
        8,
        0.9,
        5.0,
    )


def test_thresholds_where_they_stood_before():
    """The picker of the first releases had no plugin for the detector, but its thresholds in the file."""
    older = "saturationDetector: {queueDepthThreshold: 7, kvCacheUtilThreshold: 0.7, %s}"
    staleness = "metricsStalenessThreshold: 150ms"
    found = reading("featureGates: [flowControl]\n" + older % staleness)
    assert found.queueing is not None
    capacity = found.queueing.capacity
    assert capacity == CapacitySettings(
        detector="utilization-detector", queue_depth=7, kv_usage=0.7, stale_s=0.15
    )
    assert "saturationDetector" in [each.path for each in found.problems if each.severity == "warning"]
    wrong = reading("featureGates: [flowControl]\n" + older % "metricsStalenessThreshold: soon")
    assert [each.path for each in wrong.problems if each.severity == "error"] == [
        "saturationDetector.metricsStalenessThreshold"
    ]
    closed = reading(older % staleness)
    assert closed.queueing is None
    (_, told) = [each.message for each in closed.problems if each.path == "saturationDetector"]
    assert "without effect" in told


@pytest.mark.parametrize(
    ("gates", "is_on"), [("[]", None), ("[flowControl=false]", False), ("[flowControl=true]", True)]
)
def test_the_gate_decides(gates, is_on):
    """Closed, only sheddable requests are refused; where nothing is said, the gateway's settings stand."""
    found = reading(f"featureGates: {gates}\nflowControl: {{maxRequests: 5}}")
    assert (None if found.queueing is None else found.queueing.flow.is_on) == is_on
    assert ("flowControl" in [each.path for each in found.problems]) == (is_on is None)


def test_all_that_is_wrong_is_told_with_the_rest_of_the_file():
    """Amounts, times, bands, plugins of another sort, and their parameters."""
    found = reading(
        """
featureGates: [flowControl]
plugins:
- {type: quue-scorer}
- {type: queue-scorer}
- {type: priority-holdback-policy, parameters: {minCeiling: 0.9, maxCeiling: 0.5}}
flowControl:
  maxBytes: 10Gx
  maxRequests: -1
  defaultRequestTTL: soon
  usageLimitPolicyPluginRef: priority-holdback-policy
  saturationDetector: {pluginRef: queue-scorer}
  priorityBands:
  - {priority: 1, fairnessPolicyRef: fcfs-ordering-policy}
  - {priority: 1, orderingPolicyRef: nobody}
"""
    )
    assert found.queueing is None
    errors = [each.path for each in found.problems if each.severity == "error"]
    assert sorted(errors) == [
        "flowControl.defaultRequestTTL",
        "flowControl.maxBytes",
        "flowControl.maxRequests",
        "flowControl.priorityBands[0].fairnessPolicyRef",
        "flowControl.priorityBands[1].orderingPolicyRef",
        "flowControl.priorityBands[1].priority",
        "flowControl.saturationDetector.pluginRef",
        "plugins[0].type",
        "plugins[2].parameters.minCeiling",
    ]


def test_experimental_policies_are_allowed_as_others_are():
    """They say what to set."""
    text = "featureGates: [flowControl]\nplugins: [{type: soft-reflective-ceiling-policy}]"
    (problem,) = [each for each in reading(text, allow_alpha=False).problems if each.severity == "error"]
    assert (problem.path, problem.suggestion[:8]) == ("plugins[0].type", "allow it")
