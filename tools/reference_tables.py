"""Update the field tables of docs/reference/ from the types: `python tools/reference_tables.py`.

A page has each table between two markers; the text around them is written by hand:

    <!-- fields of ModelRoute networking.volcano.sh/v1alpha1, not inside status.conditions -->
    <!-- end of fields -->
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from headgate import api
from headgate.api import fields
from headgate.api.fields import Field, Schema

PAGES = Path(__file__).resolve().parents[1] / "docs" / "reference"
_TABLE = re.compile(
    r"(<!-- fields of (\S+) (\S+?)(?:, not inside ([^>]*?))? -->\n)(.*?)(<!-- end of fields -->)", re.S
)
_HEADING = "| field | type | default | bounds | what it says |\n| --- | --- | --- | --- | --- |\n"


def rendered(text: str) -> str:
    """The page with current tables. Raises LookupError for an unknown kind or field."""
    return _TABLE.sub(lambda found: found[1] + _table(found[2], found[3], found[4] or "") + found[6], text)


def _table(kind: str, api_version: str, folded: str) -> str:
    schema = _schema(kind, api_version)
    closed = {fields.find(schema, path).path for path in folded.replace(",", " ").split()}
    return (
        _HEADING
        + "".join(_row(field, field.path in closed) for field in _shown(schema, closed))
        + _rules(schema)
    )


def _schema(kind: str, api_version: str) -> Schema:
    for definition in api.custom_definitions():
        spec = definition["spec"]
        for version in spec["versions"]:
            if (spec["names"]["kind"], f"{spec['group']}/{version['name']}") == (kind, api_version):
                schema: Schema = version["schema"]["openAPIV3Schema"]
                return schema
    raise LookupError(f"there is no kind {kind} in {api_version}")


def _shown(schema: Schema, closed: set[str]) -> Iterator[Field]:
    """All fields in order, except those inside closed ones."""
    for field in fields.below(fields.root(schema)):
        inside = [path for path in closed if field.path.startswith((f"{path}.", f"{path}[]"))]
        if field.path not in ("apiVersion", "kind", "metadata") and not inside:
            yield field


def _row(field: Field, is_closed: bool) -> str:
    default = f"`{_plain(field.schema['default'])}`" if "default" in field.schema else ""
    if field.required and not default:
        default = "required"
    bounds = "; ".join(_escaped(part) for part in fields.in_words(field).split("; ") if part)
    more = " As in Kubernetes." if is_closed else ""
    return f"| `{field.path}` | {field.type} | {default} | {bounds} | {_escaped(field.description)}{more} |\n"


def _rules(schema: Schema) -> str:
    every = fields.below(fields.root(schema))
    lines = [f"- `{field.path}`: {rule}\n" for field in every for rule in field.rules]
    return "\nRules across fields:\n\n" + "".join(lines) if lines else ""


def _plain(default: object) -> str:
    return default if isinstance(default, str) and default else json.dumps(default)


def _escaped(text: str) -> str:
    """Text in a table cell; an expression is code, in which only the bar is escaped."""
    before, pattern, expression = text.partition("matches ^")
    if pattern:
        return f"{before}matches `^{expression}`".replace("|", r"\|")
    return text.replace("|", r"\|").replace("*", r"\*")


def main() -> None:
    """Write the pages that changed."""
    for page in sorted(PAGES.glob("*.md")):
        old = page.read_text(encoding="utf-8")
        new = rendered(old)
        if new != old:
            page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
