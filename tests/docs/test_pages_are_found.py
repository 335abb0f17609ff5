"""Every page is listed once on the index of the documentation, and every link leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^()\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)
CODE = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#+ (.+)$", re.M)


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = HEADING.findall(FENCED.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _links(page: Path) -> list[str]:
    text = CODE.sub("", FENCED.sub("", page.read_text()))
    return [link for link in LINK.findall(text) if "://" not in link]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    """Also those to a heading of the same page."""
    for link in _links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


def test_the_index_lists_each_page_once() -> None:
    """Under one task, with one line."""
    index = DOCS / "README.md"
    listed = [link for link in _links(index) if "#" not in link and not link.startswith("..")]
    folders = {"conformance/README.md", "reference/README.md"}
    pages = {page.name for page in DOCS.glob("*.md")} - {"README.md"} | folders
    pages |= {f"how-to/{page.name}" for page in DOCS.glob("how-to/*.md")}
    assert sorted(listed) == sorted(pages)
    rows = re.findall(r"^- \[.+\]\((.+)\)(.*)$", index.read_text(), re.M)
    assert all(text.startswith(": ") and text.endswith(".") for _, text in rows)
