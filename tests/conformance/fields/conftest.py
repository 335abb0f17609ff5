"""The field tables of tests/api/fields, through an API server: create and replace, dry run."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "api" / "fields" / "driver"))


@pytest.fixture(scope="module")
def objects(server: Any) -> Iterator[Any]:
    """Python's official client for custom objects, over one connection."""
    from kubernetes import client, config

    with config.new_client_from_config(str(server.kubeconfig)) as connection:
        yield client.CustomObjectsApi(connection)
