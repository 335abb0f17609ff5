"""Whatever clients do, one after another or at once, the server agrees with a model of Kubernetes' rules.

`HEADGATE_EXAMPLES=500` looks further than every run can afford.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from weir_crowds import Crowds
from weir_readers import Readers

EXAMPLES = int(os.environ.get("HEADGATE_EXAMPLES", "12"))
STEPS = 50


class Histories(Readers, Crowds):
    """Writers, crowds and readers on one server."""


@pytest.mark.timeout(600)  # a history that fails is made short, which takes its time
def test_the_server_agrees_with_the_model(asking: Any, two_namespaces: tuple[str, str]) -> None:
    """Creates, updates, patches, applies, deletes, lists and watches in any order, and at once."""

    class Machine(Histories):
        server = asking
        namespaces = two_namespaces

    bounded = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize="HEADGATE_EXAMPLES" not in os.environ,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    run_state_machine_as_test(Machine, settings=bounded)  # type: ignore[no-untyped-call]
