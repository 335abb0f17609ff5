"""Update the tables of docs/settings.md: `python tools/settings_table.py`."""

from __future__ import annotations

import re
from pathlib import Path

from headgate.gateway import Setting, setting_types

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
_TABLES = re.compile(r"(<!-- settings of the gateway -->\n)(.*?)(<!-- end of settings -->)", re.S)
_HEADING = "| setting | value | default | description |\n| --- | --- | --- | --- |\n"


def rendered(text: str) -> str:
    """The page with current tables."""
    tables = "\n".join(_table(section) for section in setting_types.sections())
    return _TABLES.sub(lambda found: f"{found[1]}\n{tables}\n{found[3]}", text)


def _table(section: setting_types.SectionInfo) -> str:
    rows = "".join(_row(setting) for setting in section.settings)
    return f"### {section.name}\n\n{section.description}\n\n{_HEADING}{rows}"


def _row(setting: Setting) -> str:
    default = "" if setting.default in (None, (), [], "") else f"`{_plain(setting.default)}`"
    later = "" if setting.is_live else " *At the next start or upgrade.*"
    return f"| `{setting.path}` | {setting.wanted} | {default} | {setting.description}{later} |\n"


def _plain(default: object) -> str:
    """As written in the file."""
    if isinstance(default, tuple):
        return f"[{', '.join(default)}]"
    if isinstance(default, bool):
        return "true" if default else "false"
    return f"{default:g}" if isinstance(default, float) else str(default)


if __name__ == "__main__":
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
