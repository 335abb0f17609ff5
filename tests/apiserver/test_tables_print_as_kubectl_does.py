"""Ages, and the rows of Kubernetes' own kinds."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from headgate import api
from headgate.apiserver import tables
from headgate.apiserver.registry import Registry

NOW = datetime.datetime(2026, 1, 2, 12, 0, 0, tzinfo=datetime.UTC)
REGISTRY = Registry(api.builtin_definitions())


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (10860, "3h1m"),
        (28800, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (176400, "2d1h"),
        (691200, "8d"),
        (63071999, "729d"),
        (63072000, "2y"),
        (63158400, "2y1d"),
        (252288000, "8y"),
    ],
)
def test_ages_are_those_of_kubectl(seconds: int, expected: str) -> None:
    """At each boundary of HumanDuration."""
    assert tables.human_duration(seconds) == expected


def row(plural: str, obj: Any, group: str = "") -> tuple[list[str], list[Any]]:
    served = REGISTRY.find(group, "v1", plural)
    assert served
    table = tables.table(served, [obj], metadata={}, include="None", now=NOW)
    return [column["name"] for column in table["columnDefinitions"]], table["rows"][0]["cells"]


def pod(**status: Any) -> Any:
    return {
        "metadata": {"name": "p", "creationTimestamp": "2026-01-02T11:59:00Z"},
        "spec": {"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}]},
        "status": {"phase": "Running", "podIP": "127.0.0.5"} | status,
    }


RUNNING = {"name": "a", "ready": True, "restartCount": 0, "state": {"running": {}}}
CRASHED = {
    "name": "b",
    "ready": False,
    "restartCount": 3,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"finishedAt": "2026-01-02T11:59:30Z"}},
}


def test_a_pod_shows_ready_status_restarts() -> None:
    """A Pod with one crashing container reads 1/2 CrashLoopBackOff 3 (30s ago)."""
    names, cells = row("pods", pod(containerStatuses=[RUNNING, CRASHED]))
    assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert cells[:7] == ["p", "1/2", "CrashLoopBackOff", "3 (30s ago)", "60s", "127.0.0.5", "n"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"containerStatuses": [RUNNING]}, "Running"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        ({"containerStatuses": [{"state": {"terminated": {"reason": "Error"}}}]}, "Error"),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}, "ExitCode:3"),
        ({"containerStatuses": [{"state": {"terminated": {"signal": 9}}}]}, "Signal:9"),
    ],
)
def test_a_pods_status_is_its_most_telling_word(status: Any, expected: str) -> None:
    """The reason of a container goes before that of the Pod, and that before the phase."""
    assert row("pods", pod(**status))[1][2] == expected


def test_a_pod_that_is_being_deleted_is_terminating() -> None:
    """Whatever its containers do."""
    going = pod(containerStatuses=[RUNNING])
    going["metadata"]["deletionTimestamp"] = "2026-01-02T12:00:00Z"
    assert row("pods", going)[1][2] == "Terminating"


def test_a_deployment_shows_ready_of_wanted() -> None:
    """READY is available of wanted, as text."""
    obj = {
        "metadata": {"name": "d", "creationTimestamp": "2026-01-01T12:00:00Z"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}},
        "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2},
    }
    names, cells = row("deployments", obj, "apps")
    assert names[1:5] == ["Ready", "Up-to-date", "Available", "Age"]
    assert cells[1:5] == ["2/3", 3, 2, "24h"]


def test_every_builtin_row_survives_an_empty_object() -> None:
    """No kind needs more than a name to be printed, and has as many cells as columns."""
    for served in REGISTRY:
        table = tables.table(served, [{"metadata": {"name": "x"}}], metadata={}, include="None", now=NOW)
        assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"])
