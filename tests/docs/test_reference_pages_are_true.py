"""docs/reference/: the field tables are those of the types, and every example applies."""

import copy
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from headgate import api
from headgate.api import admission
from headgate.api.unattended import UNATTENDED
from headgate.kubeschema import structural

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
EXAMPLE = re.compile(r"^```yaml\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([\w./-]+\.md)\)")
TABLE = re.compile(r"<!-- fields of (\S+) ([^\s,]+)")

DEFINITIONS = api.custom_definitions()
SCHEMAS = {
    (d["spec"]["names"]["kind"], f"{d['spec']['group']}/{version['name']}"): version["schema"][
        "openAPIV3Schema"
    ]
    for d in DEFINITIONS
    for version in d["spec"]["versions"]
}


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    """The script that writes the tables."""
    spec = importlib.util.spec_from_file_location("reference_tables", ROOT / "tools" / "reference_tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_are_those_of_the_types(page: Path, tables: ModuleType) -> None:
    """A default or a limit that changed without its page is found here."""
    text = page.read_text()
    assert tables.rendered(text) == text, "write it anew with `python tools/reference_tables.py`"


def test_a_table_that_is_out_of_date_is_noticed(tables: ModuleType) -> None:
    """One number changed by hand is enough."""
    text = (ROOT / "docs" / "reference" / "modelroute.md").read_text()
    assert tables.rendered(text.replace("| `100` | 0 to 100 |", "| `100` | 0 to 99 |")) == text


def test_every_kind_has_a_page_and_the_index_names_it() -> None:
    """One page for each kind and version, with the parts that a reader looks for."""
    pages = {TABLE.search(page.read_text()).groups(): page for page in PAGES if page.name != "README.md"}  # type: ignore[union-attr]
    assert pages.keys() == SCHEMAS.keys()
    index = (ROOT / "docs" / "reference" / "README.md").read_text()
    for (kind, api_version), page in pages.items():
        assert f"| [{kind}]({page.name}) | `{api_version}` |" in index
        headings = re.findall(r"^## (.*)$", page.read_text(), re.M)
        assert headings == ["What it does", "Example", "What goes wrong", "Fields"], page.name


def test_kinds_that_nothing_acts_on_are_called_so_and_no_others() -> None:
    """In the index, and at the top of their pages."""
    index = (ROOT / "docs" / "reference" / "README.md").read_text()
    for kind, api_version in SCHEMAS:
        is_unattended = (api_version.partition("/")[0], kind) in UNATTENDED
        [(page, told)] = re.findall(
            rf"^\| \[{kind}\]\((.*?)\) \| `{api_version}` \| .* \| (yes|not yet) \|$", index, re.M
        )
        assert (told == "not yet") is is_unattended, kind
        assert ("effect yet" in (ROOT / "docs" / "reference" / page).read_text()) is is_unattended, kind


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """To other pages of the documentation."""
    assert [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "README.md"], ids=lambda page: page.name
)
def test_examples_apply(page: Path) -> None:
    """Every object of a page passes its schema and the rules beyond it, and has no field that is unknown."""
    manifests = [each for text in EXAMPLE.findall(page.read_text()) for each in yaml.safe_load_all(text)]
    kind = TABLE.search(page.read_text())
    assert kind is not None
    assert kind.groups() in [(each["kind"], each["apiVersion"]) for each in manifests]
    for manifest in manifests:
        unknown, errors = judged(manifest, manifests)
        assert (unknown, [error.message() for error in errors]) == ([], []), manifest["kind"]


def judged(
    manifest: dict[str, Any], together: list[dict[str, Any]]
) -> tuple[list[str], list[structural.FieldError]]:
    """What a server would drop of an object, and why it would refuse it."""
    stored = copy.deepcopy(manifest)
    schema = SCHEMAS.get((manifest["kind"], manifest["apiVersion"]))
    unknown = structural.prune(schema, stored) if schema else []
    if schema:
        structural.default(schema, stored)
    admission.default(stored)
    errors = structural.validate(schema, stored) if schema else []
    return unknown, errors + admission.check(stored, None, admission.Gathered(together)).errors
