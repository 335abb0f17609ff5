"""A HorizontalPodAutoscaler scales engines by a signal of their pool, which two gateways share."""

from __future__ import annotations

import json

import pytest

SLOW_S = 240.0
"""The autoscaler looks every 15 s."""
pytestmark = [pytest.mark.timeout(900), pytest.mark.parametrize("helm", ["3"], indirect=True)]


def test_engines_follow_the_work_of_all_gateways(
    cluster, model, keep_busy, run_prometheus, run_adapter, chart, adapter_rules, signal_rules, eventually
):
    """Up to the maximum while there is work for several engines, and down to one when there is none."""
    eventually(lambda: model.ask().status_code == 200)
    prometheus = run_prometheus(chart, "gateway", rules=[signal_rules])
    work = f'headgate:work_seconds{{namespace="{model.namespace}",modelserver="chat"}}'
    eventually(lambda: len(prometheus.query(work)) == 1)
    run_adapter(prometheus, adapter_rules)
    cluster.apply(
        model.manifest("HorizontalPodAutoscaler", **{"Seconds: 300": "Seconds: 0"}), namespace=model.namespace
    )

    enough = keep_busy(model)
    of_each = f'headgate_gateway_pool_work_seconds{{pool="{model.namespace}/chat"}} > 0'
    eventually(lambda: len(prometheus.query(of_each)) == 2)
    eventually(lambda: model.replicas() == 3, SLOW_S)
    eventually(lambda: _measured(model) == ["headgate:work_seconds"])  # written after the replicas
    [item] = json.loads(cluster.kubectl(*model.command("get --raw")))["items"]
    assert item["describedObject"]["name"] == "chat"
    eventually(lambda: model.ready() == 3)

    enough.set()
    eventually(lambda: model.replicas() == 1, SLOW_S)


def _measured(model) -> list[str]:
    """The metrics of objects in the status of the autoscaler."""
    metrics = model.get("hpa").get("status", {}).get("currentMetrics") or ()
    return [each["object"]["metric"]["name"] for each in metrics if "object" in each]
