"""An API server rejects an object of more than 1.5 MB: whatever Pods say, a status stays far below."""

import goldens
import msgspec
import pytest

from headgate.api.kthena_registry import ModelAdapterStatus
from headgate.controllers.model import Children, status
from headgate.controllers.model.status import BackendState

BACKEND = {
    "name": "b",
    "type": "vLLM",
    "modelURI": "hf://org/model",
    "minReplicas": 1,
    "maxReplicas": 1,
    "workers": [{"type": "server"}],
}


def written(backends, adapters, error, name="a{}"):
    """The status of a Model of which all adapters but the first of each backend have failed."""
    first = ModelAdapterStatus(name=name.format(0), state="Loaded", loaded=1)
    rest = [ModelAdapterStatus(name=name.format(i), state="Failed", error=error) for i in range(1, adapters)]
    states = [BackendState(f"b{i}", 1, 1, 1, adapters=[first, *rest]) for i in range(backends)]
    model = goldens.stored({"metadata": {"name": "m"}, "spec": {"backends": [BACKEND]}})
    return status.status_of(model, Children(()), states, [], "2026-01-01T00:00:00Z")


@pytest.mark.parametrize("error", ["x" * 1024, "\N{SNOWMAN}" * 1024, '"' * 1024])
def test_errors_are_shortened_and_entries_left_out(error):
    """The condition says how many; adapters with an error come first."""
    made = written(32, 1000, error, "a" * 200 + "{}")
    assert len(msgspec.json.encode(status.written(made))) < 400_000
    entries = [entry for backend in made.backend_statuses for entry in backend.adapters]
    assert entries
    assert {entry.state for entry in entries} == {"Failed"}
    (loaded,) = [each for each in made.conditions if each.type == "AdaptersLoaded"]
    assert f"backendStatuses has no room for {32_000 - len(entries)} of the adapters" in loaded.message


def test_many_errors_are_short_and_few_are_whole():
    """All entries stay as long as they fit."""
    short = written(1, 1000, "x" * 1024).backend_statuses[0].adapters
    assert len(short) == 1000
    assert short[1].error == "x" * 77 + "..."
    assert written(1, 100, "x" * 1024).backend_statuses[0].adapters[1].error == "x" * 1024
