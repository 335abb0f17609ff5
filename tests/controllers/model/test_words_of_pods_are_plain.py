"""What Pods and sidecars say is shown in terminals: a status has no control characters of theirs."""

import msgspec
import pytest

from headgate.controllers.model import troubles
from headgate.controllers.model.duties import _adapter
from headgate.controllers.model.observed import KnownPod
from headgate.controllers.model.sidecars import AdapterState

HOSTILE = "\x1b]0;owned\x07 \u202egnp.exe\x9b2J"


@pytest.mark.parametrize(
    "state",
    [
        {"state": {"terminated": {"exitCode": 1, "message": HOSTILE, "reason": HOSTILE}}},
        {"state": {"waiting": {"reason": HOSTILE, "message": HOSTILE}}},
        {"state": {}, "lastState": {"terminated": {"exitCode": 1, "message": f"a\n{HOSTILE}"}}},
    ],
)
def test_failures_of_containers(state):
    pod = {"metadata": {"name": "p"}, "status": {"containerStatuses": [{"name": "engine", **state}]}}
    trouble = troubles.of_pod(msgspec.convert(pod, KnownPod))
    assert trouble.message.isprintable()
    assert r"\u001b]0;owned\u0007 \u202egnp.exe\u009b2J" in trouble.message


def test_errors_of_sidecars():
    """Also long ones stay short when they are escaped."""
    said = [("p", [AdapterState("a", "hf://a/b", "Failed", HOSTILE + "\x1b" * 4000)])]
    error = _adapter("a", said).error
    assert error.isprintable()
    assert len(error) <= troubles.LONGEST + len("Pod p: ")
