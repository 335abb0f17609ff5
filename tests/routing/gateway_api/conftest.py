"""Puts the objects of the Gateway API on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "driver"))
