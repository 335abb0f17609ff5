"""The embedded API server responds as a real one does, except where tools/compare_servers/differences.yaml
says why it does not.

By hand: `tools/control_plane run .venv/bin/python tools/compare_servers run`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "compare_servers"
sys.path.insert(0, str(TOOL))

import comparing  # noqa: E402
import rules  # noqa: E402
import servers  # noqa: E402
import stories  # noqa: E402

VERSION = "v1.36."
FILES = stories.files() | {"bounds": rules.load()}


class Comparison:
    """Compares the servers in one file of stories at a time, and each only once."""

    def __init__(self, real: servers.Server, embedded: servers.Server) -> None:
        self._servers = real, embedded
        self._found: dict[str, list[comparing.Difference]] = {}

    def differences(self, file: str) -> list[comparing.Difference]:
        if file not in self._found:
            self._found[file] = servers.compare_all(FILES[file], *self._servers)
        return self._found[file]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparison]:
    """Two new servers."""
    state = tmp_path_factory.mktemp("servers")
    with servers.new_real(state / "real") as real, servers.new_embedded(state / "embedded") as embedded:
        if not servers.version(real).startswith(VERSION):
            pytest.skip(f"differences.yaml is about Kubernetes {VERSION}: messages of others are different")
        yield Comparison(real, embedded)


@pytest.mark.parametrize("file", FILES)
def test_every_difference_has_a_reason(comparison: Comparison, file: str) -> None:
    """A new difference is a mistake of the embedded server, or belongs in differences.yaml."""
    found = comparing.unlisted(comparison.differences(file), comparing.reasons())
    assert not found, comparing.shown(found)


def test_every_reason_is_needed(comparison: Comparison) -> None:
    """A difference that no longer occurs must leave differences.yaml, and thereby the page."""
    found = [each for file in FILES for each in comparison.differences(file)]
    assert comparing.without_effect(found, comparing.reasons()) == []
