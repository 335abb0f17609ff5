"""The benchmark is a handful of scripts beside the package: put them on the path, as running them does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
