"""Puts the driver of the field tables on the path; the conformance suite uses it as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "driver"))
