"""A data plane with two endpoints for each test; the rest is in `one_plane`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from one_plane import Plane


@pytest.fixture
def plane():
    return Plane()
