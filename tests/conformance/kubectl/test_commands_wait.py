"""`kubectl wait`: for conditions, for values, for objects that come and go."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.kubectl

MET = "gate.conformance.headgate.dev/north condition met\n"
LATE = "error: timed out waiting for the condition on gates/north\n"


@pytest.fixture
def north(kubectl: Any, gate: Any) -> Any:
    """kubectl, in a namespace with the gate `north`."""
    kubectl("create", "-f", "-", stdin=gate)
    return kubectl


def set_status(kubectl: Any, status: str) -> None:
    kubectl("patch", "gate", "north", "--subresource=status", "--type=merge", "-p", f'{{"status":{status}}}')


def test_a_condition_is_waited_for(north: Any) -> None:
    """True, or the value that is asked for; until then, and no longer than the timeout."""
    waiting = north.start("wait", "gate/north", "--for=condition=Ready", "--timeout=60s")
    now = north.refused("wait", "gate/north", "--for=condition=Ready", "--timeout=0s")
    assert now == "error: condition not met for gates/north\n"
    set_status(north, '{"conditions":[{"type":"Ready","status":"True"}]}')
    assert (waiting.stdout.read(), waiting.wait(100)) == (MET, 0)
    assert north("wait", "gate/north", "--for=condition=Ready=true") == MET
    assert north.run("wait", "gate/north", "--for=condition=Ready=False", "--timeout=1s") == (1, "", LATE)


def test_a_value_is_waited_for(north: Any) -> None:
    """By JSONPath; of all objects of a selection."""
    waiting = north.start("wait", "gate/north", "--for=jsonpath={.status.state}=open", "--timeout=60s")
    set_status(north, '{"state":"shut"}')
    set_status(north, '{"state":"open"}')
    assert (waiting.stdout.read(), waiting.wait(100)) == (MET, 0)
    assert north("wait", "gates", "--all", "--for=jsonpath={.spec.width}=3", "--timeout=60s") == MET
    assert north("wait", "gates", "-l", "river=aare", "--for=jsonpath={.spec.width}=3") == MET


def test_a_deletion_is_waited_for(north: Any) -> None:
    """It ends when the object is gone, and at once if there is none."""
    waiting = north.start("wait", "gate/north", "--for=delete", "--timeout=60s")
    north("delete", "gate", "north")
    assert waiting.wait(100) == 0
    assert north("wait", "gate/north", "--for=delete", "--timeout=60s") == ""


def test_a_creation_is_waited_for(kubectl: Any, gate: Any) -> None:
    """`--for=create`, which kubectl has since 1.31; before, it says that it does not know it."""
    if kubectl.minor < 31:
        assert kubectl.refused("wait", "gate/north", "--for=create") == (
            'error: unrecognized condition: "create"\n'
        )
        return
    waiting = kubectl.start("wait", "gate/north", "--for=create", "--timeout=60s")
    kubectl("create", "-f", "-", stdin=gate)
    assert (waiting.stdout.read(), waiting.wait(100)) == (MET, 0)


def test_nothing_to_wait_for_is_told(kubectl: Any) -> None:
    """An object that does not exist, and a selection without objects."""
    assert kubectl.refused("wait", "gate/none", "--for=condition=Ready", "--timeout=1s") == (
        'Error from server (NotFound): gates.conformance.headgate.dev "none" not found\n'
    )
    assert kubectl.refused("wait", "gates", "--all", "--for=condition=Ready", "--timeout=1s") == (
        "error: no matching resources found\n"
    )
