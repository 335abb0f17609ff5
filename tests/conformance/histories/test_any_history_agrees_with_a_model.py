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
from weir_fields import ITEM
from weir_readers import Readers
from weir_writers import EDITOR

EXAMPLES = int(os.environ.get("HEADGATE_EXAMPLES", "15"))
STEPS = 50


class Histories(Readers, Crowds):
    """Writers, crowds and readers on one server."""


def test_fields_change_hands(asking: Any, two_namespaces: tuple[str, str]) -> None:
    """A history that is rarely made up: fields that are shared, taken over, changed inside, and left."""

    class Machine(Histories):
        server = asking
        namespaces = two_namespaces

    machine, seat = Machine(), (0, "b")
    parts = {"width": 1, "place": {"north": 1, "east": 2}, "board a": {"thickness": 1}, "board b": {}}
    machine.apply(seat, "ann", parts | {"note a": "1", "tag x": ITEM}, force=False, dry=False)
    machine.apply(seat, "ann", parts | {"place": {"north": 1}, "note a": "1"}, force=False, dry=False)
    machine.saw(seat, "board a", 2)
    machine.leave(seat, "ann", {"board a"})
    machine.join(seat, "bob", {"board b", "place", "note a"})
    machine.leave(seat, "ann", {"board b", "place", "note a"})
    machine.apply(seat, "cyd", {"width": 3, "place": {"east": 3}, "note a": "2"}, force=False, dry=False)
    machine.apply(seat, "cyd", {"width": 3, "place": {"east": 3}, "note a": "2"}, force=True, dry=False)
    machine.leave(seat, "bob", {"board b"})
    machine.merge_patch(seat, {"note a": None, "place": None}, EDITOR, None, dry=False)
    machine.leave(seat, "cyd", {"place"})
    machine.teardown()


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
