"""Why a Pod of a Model does not serve, from the states of its containers."""

import msgspec
import pytest

from headgate.controllers.model.observed import KnownPod
from headgate.controllers.model.troubles import ENGINE_FAILING, Trouble, of_pod

TRACEBACK = """\
Traceback (most recent call last):
  File "engine.py", line 1, in <module>
ValueError: no such flag

"""


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (TRACEBACK, "ValueError: no such flag (ended with exit code 1)"),
        ("out of memory", "out of memory (ended with exit code 1)"),
        (" \n", "ended with exit code 1"),
        ("", "ended with exit code 1"),
    ],
)
def test_the_last_line_of_an_engine_says_why_it_ended(message, told):
    """The end of its log is its termination message."""
    status = {
        "name": "engine",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "message": message}},
    }
    pod = msgspec.convert({"metadata": {"name": "p"}, "status": {"containerStatuses": [status]}}, KnownPod)
    assert of_pod(pod) == Trouble(ENGINE_FAILING, f"Pod p, container engine: {told}")


ENDED = {"terminated": {"exitCode": 143, "reason": "NodeShutdown"}}


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": [{"name": "engine", "state": {"waiting": {"reason": "NodeShutdown"}}}]},
        {
            "containerStatuses": [
                {"name": "engine", "state": {"waiting": {"reason": "NodeShutdown"}}, "lastState": ENDED}
            ]
        },
        {"containerStatuses": [{"name": "engine", "state": {"running": {}}, "lastState": ENDED}]},
        {"phase": "Failed", "reason": "Terminated", "message": "imminent node shutdown"},
    ],
)
def test_what_the_node_ends_is_no_failure(status):
    """Neither when it stops nor when it has started the engine again."""
    pod = msgspec.convert({"metadata": {"name": "p"}, "status": status}, KnownPod)
    assert of_pod(pod) is None
