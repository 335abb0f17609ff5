"""Commands that need what Headgate does not have end at once, and say what it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = [pytest.mark.kubectl, pytest.mark.embedded]

NOWHERE = json.dumps({"spec": {"nodeSelector": {"conformance.headgate.dev/none": "here"}}})


def test_nothing_runs_inside_of_containers(kubectl: Any) -> None:
    """`exec`, `attach` and `cp`: Pods are processes of the machine."""
    kubectl("run", "one", "--image=web:1", f"--overrides={NOWHERE}")
    for arguments, subresource in (
        (("exec", "one", "--", "ls"), "exec"),
        (("attach", "one"), "attach"),
        (("cp", "one:/etc/hosts", "hosts"), "exec"),
    ):
        refused = kubectl.run(*arguments)
        told = f"Error from server (MethodNotAllowed): pods/{subresource} is not served: the containers of a "
        assert (refused.code, told in refused.err) == (1, True), refused


def test_kinds_that_are_not_there_are_told(kubectl: Any) -> None:
    """Jobs, and metrics of Pods."""
    assert kubectl.refused("create", "job", "j", "--image=web:1") == (
        "error: failed to create job: the server could not find the requested resource\n"
    )
    assert kubectl.refused("top", "pods") == "error: Metrics API not available\n"
