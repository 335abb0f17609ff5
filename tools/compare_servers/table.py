"""The table of differences in docs/api-server.md, from differences.yaml."""

from __future__ import annotations

import re

from comparing import Reason, reasons
from stories import HERE

PAGE = HERE.parents[1] / "docs" / "api-server.md"
_TABLE = re.compile(r"(<!-- differences from Kubernetes -->\n)(.*?)(<!-- end of differences -->)", re.S)
_HEADING = "| Kubernetes 1.36 | embedded server | reason |\n| --- | --- | --- |\n"


def rendered(text: str) -> str:
    """The page with the current table."""
    rows = "".join(map(_row, reasons()))
    return _TABLE.sub(lambda found: f"{found[1]}\n{_HEADING}{rows}\n{found[3]}", text)


def write() -> None:
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _row(reason: Reason) -> str:
    cells = (
        " ".join(each.replace("|", "\\|").split()) for each in (reason.real, reason.embedded, reason.reason)
    )
    return f"| {' | '.join(cells)} |\n"
