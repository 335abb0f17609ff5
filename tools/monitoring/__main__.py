"""Write the rules of Prometheus and the dashboard of Grafana from one set of definitions:
`python tools/monitoring`, part of `make generated`.

`tools/deployment.py` copies the rules into the chart.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(Path(__file__).resolve().parent))

import writing  # noqa: E402


def main() -> None:
    for path, text in writing.files().items():
        (ROOT / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
