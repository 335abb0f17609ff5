"""The names that an engine answers to, from /v1/models."""

import json
import time

import pytest

from headgate import engines
from headgate.engines.responses import MAX_MODELS


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
        b'{"data": [' + b'{"id":""},' * 400_000 + b'{"id":"a"}]}',
    ],
)
def test_anything_else_is_refused(body):
    """With the reason; nothing else is raised."""
    with pytest.raises(ValueError, match=r"list of"):
        engines.read_models(body)


def test_parents_are_not_decoded():
    """Whatever an engine says of them: a million empty lists would take the event loop half a second."""
    body = b'{"data": [{"id": "a", "parent": [' + b"[]," * 1_000_000 + b'[]]}, {"id": "b", "parent": ""}]}'
    began = time.thread_time()
    assert engines.read_models(body) == ({"a", "b"}, {"a"})
    assert time.thread_time() - began < 0.1, "CPU time of one pass over 3 MB, not of a million objects"
