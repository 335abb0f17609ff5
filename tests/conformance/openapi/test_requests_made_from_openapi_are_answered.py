"""Requests made up from the server's own OpenAPI documents: each answer is one that the document tells of.

`HEADGATE_EXAMPLES=2000` makes up that many for each document. Only for the embedded server: the documents of
Kubernetes leave out every error but 401, and it answers some made-up requests with 500.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks

import requests

EXAMPLES = int(os.environ.get("HEADGATE_EXAMPLES", "30"))
# Definitions come last: a made-up request may delete them.
DOCUMENTS = ["api/v1", "apis/apps/v1", "apis/conformance.headgate.dev/v1", "apis/apiextensions.k8s.io/v1"]
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


def cases(document: Any, namespace: str) -> st.SearchStrategy[Any]:
    """Requests of all operations: as the document has them and not, to what exists and to what does not."""
    operations = [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]
    return st.one_of(
        operation.as_strategy(mode, path_parameters=place or None)
        for operation in operations
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        for place in _places(operation, namespace)
    )


def _places(operation: Any, namespace: str) -> list[dict[str, str]]:
    """Where to ask: anywhere, and for the object "a"."""
    known = {"namespace": namespace, "name": "a"}
    place = {name: value for name, value in known.items() if f"{{{name}}}" in operation.path}
    return [{}, place]


@pytest.mark.embedded
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_answer_is_one_of_the_document(asking: Any, name: str) -> None:
    """No made-up request is answered by a server error, an undocumented status, or another shape."""
    asking.prepare()
    listed = asking.ask(method="GET", url=f"{asking.url}/openapi/v3").json()["paths"]
    document = asking.ask(method="GET", url=asking.url + listed[name]["serverRelativeURL"]).json()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="HEADGATE_EXAMPLES" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(cases(document, asking.namespace))
    def answered(case: Any) -> None:
        if isinstance(case.query, dict):
            case.query.pop("watch", None)  # an answer without an end
        try:
            answer = asking.ask(**case.as_transport_kwargs(base_url=asking.url))
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeError):
            reject()  # cannot be sent
        case.validate_response(answer, checks=CHECKS)

    answered()
    assert asking.ask(method="GET", url=f"{asking.url}/readyz").text == "ok"
