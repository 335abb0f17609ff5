"""The names that an engine answers to, from /v1/models."""

import json

import pytest

from headgate import engines
from headgate.engines.models import MAX_MODELS


def test_all_names_are_known():
    """Adapters are among them, and are those with a parent; what else is said of a model does not matter."""
    body = {"object": "list", "data": [{"id": "base", "parent": None}, {"id": "sql", "parent": "base"}]}
    assert engines.read_models(json.dumps(body).encode()) == ({"base", "sql"}, {"sql"})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"data": [{"name": "x"}]}',
        b'{"data": [{"id": 1}]}',
        b'{"data": ' + b"[" * 100_000,
        b'{"data": [{"id": "\xff"}]}',
        json.dumps({"data": [{"id": str(n)} for n in range(MAX_MODELS + 1)]}).encode(),
    ],
)
def test_anything_else_is_refused(body):
    """With the reason; nothing else is raised."""
    with pytest.raises(ValueError, match=r"list of"):
        engines.read_models(body)
