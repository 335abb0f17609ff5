"""VariantAutoscalings on a real control plane: HorizontalPodAutoscaler, KEDA and the controller itself scale
simulated engines by plans; with the rights of the chart, and manifests of docs/beside-hpa-and-keda.md.

Numbers are those of the acceptance cases, of which engines, batch and tokens are taken as well. The tests
share one load, so they follow each other as written.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from audit import forbidden
from faulty_prometheus import FAULTS
from planned_site import VARIANT, took

STEP_S = 30.0
CONSTANT_S = 120.0
BATCH_RATE = 2.7
"""Requests a second: two replicas, one of which could also run them, but too slowly."""
OFF_S = 240.0
SLOW_S = 240.0
"""HorizontalPodAutoscalers look every 15 s."""
DIRECT = {"headgate.dev/actuate": "direct"}
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def tell(capsys: Any) -> Any:
    """Prints what was measured."""

    def line(text: str) -> None:
        with capsys.disabled():
            print(f"\n  {text}")  # noqa: T201 - for whoever reads the test's output

    return line


def test_a_step_is_planned_for_within_seconds(busy, tell):
    """53. A HorizontalPodAutoscaler creates the replicas that are planned."""
    tell(
        f"step to 4 requests/s: more desired after {busy.desired_s:.1f} s, three created after "
        f"{busy.replicas_s:.1f} s, ready after {busy.ready_s:.1f} s"
    )
    assert busy.desired_s < STEP_S


def test_two_variants_of_a_model_share_its_load(site, busy):
    """56. The cheap one takes all of it; the other one is not planned for the same requests once more."""
    assert busy.desired == {"chat-a100": 3, "chat-h100": 0}
    assert site.gauges("inferno_current_replicas") == {"chat-a100": 3, "chat-h100": 0}
    for name in busy.desired:
        assert site.condition(name, "OptimizationReady")[:2] == ("True", "OptimizationSucceeded")
        assert site.condition(name, "MetricsAvailable")[:2] == ("True", "MetricsFound")


def test_a_variant_goes_with_its_deployment(site, eventually):
    """The workload owns it, so the garbage collector deletes it; its gauges go as well."""
    site.variant("gone", "ghost", 0)
    eventually(lambda: site.get(VARIANT, "gone")["metadata"].get("ownerReferences"))
    [owner] = site.get(VARIANT, "gone")["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Deployment", "gone", True)
    assert not owner.get("blockOwnerDeletion")
    current = "inferno_current_replicas"
    eventually(lambda: "gone" in site.gauges(current))
    eventually(lambda: site.prometheus.query(f'{current}{{variant_name="gone"}}'))
    site.delete("deployment", "gone")
    eventually(lambda: not site.exists(VARIANT, "gone"))
    eventually(lambda: "gone" not in site.gauges(current))
    eventually(lambda: not site.prometheus.query(f'{current}{{variant_name="gone"}}'))


def test_a_deployment_outlives_its_variant(site, eventually):
    site.variant("left", "ghost", 0)
    eventually(lambda: "left" in site.gauges("inferno_current_replicas"))
    uid = site.get("deployment", "left")["metadata"]["uid"]
    site.delete(VARIANT, "left")
    eventually(lambda: "left" not in site.gauges("inferno_current_replicas"))
    assert site.get("deployment", "left")["metadata"]["uid"] == uid
    site.delete("deployment", "left")


def test_replicas_are_written_on_request_unless_another_object_scales(site, busy, eventually, tell):
    """With a HorizontalPodAutoscaler, nothing is written, and the condition names it."""
    site.model("batch")
    site.variant("batch", "batch", 1, slo="freemium.yaml", annotations=DIRECT)
    eventually(lambda: site.ready("batch") == 1)
    site.says("batch", "Actuated", "True", "Direct")
    rival = site.manifest("HorizontalPodAutoscaler", "batch", **{"maxReplicas: 10": "maxReplicas: 1"})
    site.apply(rival)
    assert "HorizontalPodAutoscaler" in site.says("batch", "Actuated", "False", "Conflict")
    with site.ask("batch", BATCH_RATE):
        began = time.monotonic()
        tell(f"desired with direct scaling after {took(lambda: site.desired('batch') == 2, began):.1f} s")
        assert site.replicas("batch") == 1
        site.delete("hpa", "batch")
        eventually(lambda: site.replicas("batch") == 2)
        site.says("batch", "Actuated", "True", "Direct")
        assert site.get(VARIANT, "batch")["status"]["actuation"]["applied"] is True


def test_the_plan_stays_while_prometheus_is_faulty(site, busy, front, eventually):
    """Whatever Prometheus answers instead of a number: desired replicas and those that there are stay."""
    for fault, word in FAULTS.items():
        with front.faulty(fault):
            told = site.says("chat-a100", "MetricsAvailable", "False", "PrometheusError")
            assert word in told, fault
            assert site.condition("chat-a100", "OptimizationReady")[:2] == ("False", "MetricsUnavailable")
            passed = site.passes()
            eventually(lambda passed=passed: site.passes() > passed + 1)
            _is_as_before(site, busy)
        site.says("chat-a100", "MetricsAvailable", "True", "MetricsFound")
        _is_as_before(site, busy)


def test_the_plan_stays_while_prometheus_is_started_again(site, busy, front, scraping, eventually):
    """The HorizontalPodAutoscaler has no metrics meanwhile, and leaves the replicas as they are, too."""
    scraping.end()
    site.says("chat-a100", "MetricsAvailable", "False", "PrometheusError")
    eventually(lambda: site.scaling_active("chat-a100") == "False", SLOW_S)
    _is_as_before(site, busy)
    scraping.begin()
    site.says("chat-a100", "MetricsAvailable", "True", "MetricsFound")
    eventually(lambda: site.scaling_active("chat-a100") == "True", SLOW_S)
    _is_as_before(site, busy)


def test_samples_that_ended_are_told_from_those_that_never_were(site, busy, front, engines_unscraped):
    """A model whose engines have not started yet has none."""
    site.variant("ghost", "ghost", 1, node="none")
    site.says("ghost", "MetricsAvailable", "False", "MetricsMissing")
    with engines_unscraped():
        site.says("chat-a100", "MetricsAvailable", "False", "MetricsStale")
        _is_as_before(site, busy)
        site.says("ghost", "MetricsAvailable", "False", "MetricsMissing")
    site.says("chat-a100", "MetricsAvailable", "True", "MetricsFound")
    _is_as_before(site, busy)
    site.delete("deployment", "ghost")


def test_a_constant_load_changes_nothing(site, busy, tell):
    """54. For two minutes, whatever else happens in the cluster."""
    time.sleep(max(busy.settled_at + CONSTANT_S - time.monotonic(), 0))
    lasted = time.monotonic() - busy.settled_at
    changes = f'changes(inferno_desired_replicas{{variant_name=~"chat-.*"}}[{lasted:.0f}s])'
    tell(f"constant load for {lasted:.0f} s")
    assert [float(each["value"][1]) for each in site.prometheus.query(changes)] == [0, 0]
    _is_as_before(site, busy)


def test_the_most_important_class_is_served_first(site, busy, eventually):
    """57. Of four accelerators, `chat` gets the three that it needs, and `batch`, of a less important class,
    one in place of two."""
    with site.ask("batch", BATCH_RATE):
        eventually(lambda: site.gauges()["batch"] == 2)
        site.config("accelerator-limits", {"A100": "4"})
        eventually(lambda: site.gauges()["batch"] == 1)
        _is_as_before(site, busy)
        assert "not all requests can be served" in site.condition("batch", "OptimizationReady").message
        site.unconfigure("accelerator-limits")
        eventually(lambda: site.gauges()["batch"] == 2)
    _is_as_before(site, busy)


def test_replicas_go_with_the_load(site, busy, eventually, tell):
    """55. To the minimum."""
    busy.load.stop()
    began = time.monotonic()
    desired_s = took(lambda: site.gauges()["chat-a100"] == 1, began)
    replicas_s = took(lambda: site.replicas("chat-a100") == 1, began)
    tell(f"load off: one desired after {desired_s:.1f} s, created after {replicas_s:.1f} s")
    assert replicas_s < OFF_S
    assert busy.load.failures == []
    assert set(busy.load.statuses) == {200}


def test_keda_scales_from_zero_and_back(site, keda, eventually, tell):
    """The first requests wait for their engine."""
    site.model("sleepy")
    site.variant("sleepy", "sleepy", 0)
    words = {
        "http://prometheus.monitoring:9090": site.prometheus.url,
        "pollingInterval: 5": "pollingInterval: 1",
        "cooldownPeriod: 30": "cooldownPeriod: 1",
        "maxReplicaCount: 10": "maxReplicaCount: 2",
    }
    site.apply(site.manifest("ScaledObject", "sleepy", **words))
    eventually(lambda: site.gauges().get("sleepy") == 0)
    eventually(lambda: "headgate.dev/scale-from-zero" in _marks(site))
    with site.ask("sleepy", 2.5) as load:
        began = time.monotonic()
        awake_s = took(lambda: site.replicas("sleepy") >= 1, began)
        ready_s = took(lambda: site.ready("sleepy") >= 1, began)
        two_s = took(lambda: site.ready("sleepy") == 2, began)
        tell(f"KEDA: created after {awake_s:.1f} s, ready after {ready_s:.1f} s, two after {two_s:.1f} s")
    began = time.monotonic()
    site.settings(GLOBAL_OPT_INTERVAL="5s")
    zero_s = took(lambda: site.replicas("sleepy") == 0, began)
    tell(f"KEDA: to zero {zero_s:.1f} s after the last request")
    assert load.failures == []
    # KEDA may end the first replica once more, until it sees that one is wanted.
    assert set(load.statuses) <= {200, 503}
    assert load.statuses[200] > 0.9 * load.requests


def test_the_controller_needs_no_other_rights(site):
    """All of the above was done with the roles of the chart."""
    user = f"system:serviceaccount:{site.namespace}:headgate-controller"
    assert forbidden(site.cluster, user) == []


def _is_as_before(site: Any, busy: Any) -> None:
    for name, replicas in busy.desired.items():
        assert site.desired(name) == site.gauges()[name] == site.replicas(name) == replicas


def _marks(site: Any) -> dict[str, str]:
    found: dict[str, str] = site.get("modelserver", "sleepy")["metadata"].get("annotations", {})
    return found


@pytest.fixture
def engines_unscraped(site, scraping) -> Any:
    """Makes blocks during which Prometheus scrapes the controller alone."""

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        before = scraping.file.read_text()
        scraping.keep_only("headgate-controller")
        site.prometheus.reload()
        try:
            yield
        finally:
            scraping.file.write_text(before)
            site.prometheus.reload()

    return block
