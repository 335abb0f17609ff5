"""Print the effective settings: as a table, as JSON, or as a settings file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from headgate.cli.gateway.configuration import Loaded
from headgate.gateway import setting_types

_DEFAULT = "default"


def show(output: str, loaded: Loaded) -> str:
    """The settings in one of FORMATS."""
    return FORMATS[output](loaded)


def _table(loaded: Loaded) -> str:
    """Every setting with its value and origin."""
    rows = [(path, _written(value), origin) for path, value, origin in _all(loaded)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    return "\n".join(f"{path:<{widths[0]}}  {value:<{widths[1]}}  {origin}" for path, value, origin in rows)


def _json(loaded: Loaded) -> str:
    rows = [{"setting": path, "value": value, "from": origin} for path, value, origin in _all(loaded)]
    return msgspec.json.format(msgspec.json.encode(rows)).decode()


def _yaml(loaded: Loaded) -> str:
    """A settings file with all settings that are set, under their current names."""
    lines = []
    for section in setting_types.sections():
        found = [(path, value) for path, value, origin in _all(loaded) if origin != _DEFAULT]
        inside = [(path, value) for path, value in found if path.startswith(f"{section.name}.")]
        if inside:
            lines.append(f"{section.name}:")
        lines += [f"  {path.partition('.')[2]}: {_written(value)}" for path, value in inside]
    return "\n".join(lines)


def _all(loaded: Loaded) -> Iterator[tuple[str, Any, str]]:
    values = loaded.settings.by_path()
    for path in setting_types.settings():
        yield path, values[path], loaded.origins.get(path, _DEFAULT)


def _written(value: object) -> str:
    """As JSON, which is also valid YAML."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return msgspec.json.encode(value).decode()


FORMATS = {"table": _table, "json": _json, "yaml": _yaml}
