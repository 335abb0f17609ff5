"""Each default and each bound of each field of our kinds, as an API server with their definitions has it.

Nothing is stored but one object for each example, whose status is then replaced in dry runs.
"""

import copy
import json
import os
from typing import Any

import field_cases
import field_tables
import pytest
from field_cases import Case
from field_tables import Table
from kubernetes.client import CustomObjectsApi
from kubernetes.client.exceptions import ApiException

from headgate import api

TABLES = field_tables.load_all()
PLURALS = {d["spec"]["names"]["kind"]: d["spec"]["names"]["plural"] for d in api.custom_definitions()}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_bound_holds_on_both_sides(
    server: Any, table: Table, objects: CustomObjectsApi, namespace: str
) -> None:
    """Beyond a bound there is a cause at this field; an absent field gets its default."""
    seat = Seat(table, objects, namespace)
    cases = list(field_cases.cases(table))
    if server.embedded and "HEADGATE_EXAMPLES" not in os.environ:
        cases = one_of_each_sort(table, cases)
    wrong = [f"{case}: {problem}" for case in cases for problem in [seat.problem(case)] if problem]
    assert wrong == [], "\n".join(wrong)


def one_of_each_sort(table: Table, cases: list[Case]) -> list[Case]:
    """Enough of a server whose schemas are known to be right in every field: they go the same way."""
    sorts: dict[object, Case] = {}
    for case in cases:
        field = table.fields[case.path]
        what = case.says.partition(":")[0]
        sorts.setdefault((what, field["type"], case.path.partition(".")[0], case.becomes is None), case)
    return list(sorts.values())


class Seat:
    """Where the objects of one table are sent."""

    def __init__(self, table: Table, objects: CustomObjectsApi, namespace: str) -> None:
        group, _, version = table.api_version.partition("/")
        self._objects = objects
        self._place = {
            "group": group,
            "version": version,
            "namespace": namespace,
            "plural": PLURALS[table.kind],
        }
        for needed in table.needs:
            place = self._place | {"plural": PLURALS[needed["kind"]]}
            objects.create_namespaced_custom_object(**place, body=needed)
        self._stored = {
            example["metadata"]["name"]: self._create(example, dry_run=None) for example in table.examples
        }

    def problem(self, case: Case) -> str | None:
        """What the server did otherwise than the table says; None if nothing."""
        if case.beyond_schema:
            return None
        try:
            result = self._send(case)
        except ApiException as error:
            status = json.loads(error.body)
            fields = {cause.get("field", "") for cause in status.get("details", {}).get("causes", ())}
            if case.refused_at is None:
                return f"is refused: {status['message']}"
            return None if case.refused_at in fields else f"is refused elsewhere: {status['message']}"
        if case.refused_at is not None:
            return f"is taken, but must be refused at {case.refused_at}"
        if not case.is_absent:
            return None
        found = field_cases.reach(result, case.steps[:-1]).get(case.steps[-1])
        return None if found == case.becomes else f"becomes {found!r}, but must become {case.becomes!r}"

    def _send(self, case: Case) -> Any:
        if case.path.partition(".")[0] != "status":
            return self._create(case.manifest | {"metadata": {"name": "changed"}}, dry_run="All")
        stored = self._stored[case.manifest["metadata"]["name"]]
        body = {key: value for key, value in case.manifest.items() if key != "metadata"} | {
            "metadata": stored["metadata"]
        }
        return self._objects.replace_namespaced_custom_object_status(
            **self._place, name=stored["metadata"]["name"], body=body, dry_run="All"
        )

    def _create(self, manifest: dict[str, Any], dry_run: str | None) -> Any:
        options = {"dry_run": dry_run} if dry_run else {}
        return self._objects.create_namespaced_custom_object(
            **self._place, body=copy.deepcopy(manifest), field_validation="Strict", **options
        )
