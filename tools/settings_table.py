"""Writes the table of the gateway's settings in docs/operations.md anew: `python tools/settings_table.py`."""

from __future__ import annotations

import re
from pathlib import Path

from headgate.gateway import Setting, setting_types

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operations.md"
_TABLE = re.compile(r"(<!-- settings of the gateway -->\n)(.*?)(<!-- end of settings -->)", re.S)
_HEADING = "| setting | value | default | what it says |\n| --- | --- | --- | --- |\n"


def rendered(text: str) -> str:
    """The page with its table as it should be."""
    rows = "".join(_row(setting) for setting in setting_types.settings().values())
    return _TABLE.sub(lambda found: found[1] + _HEADING + rows + found[3], text)


def _row(setting: Setting) -> str:
    default = "" if setting.default in (None, (), []) else f"`{_plain(setting.default)}`"
    later = "" if setting.is_live else " *At the next start or upgrade.*"
    return f"| `{setting.name}` | {setting.wanted} | {default} | {setting.description}{later} |\n"


def _plain(default: object) -> str:
    """As it would stand in the file."""
    if isinstance(default, tuple):
        return f"[{', '.join(default)}]"
    if isinstance(default, bool):
        return "true" if default else "false"
    return f"{default:g}" if isinstance(default, float) else str(default)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
