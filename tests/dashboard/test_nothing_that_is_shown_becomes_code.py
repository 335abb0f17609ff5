"""Names of endpoints, models and tenants, errors of engines: all of it comes from others, and stays text."""

import html.parser
import re
import urllib.parse

import pytest


class Parts(html.parser.HTMLParser):
    """Tags with their attributes, and where attributes lead, as a browser reads a page."""

    def __init__(self, page):
        super().__init__()
        self.tags = set()
        self.links = set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add((tag, *sorted(name for name, _ in attrs)))
        self.links |= {value for name, value in attrs if name in ("src", "href", "action", "hx-get")}


PAGES = (
    "/dashboard",
    "/dashboard/requests",
    "/dashboard/request?worker=0&number=1",
    "/dashboard/routes",
    "/dashboard/queues",
    "/dashboard/models",
)


@pytest.mark.parametrize("path", PAGES)
async def test_values_are_escaped(http, fill, path, attack):
    """None of the attacks' tags or attributes is one of the page, whichever value has them."""
    fill("harmless")
    harmless = Parts((await http.get(path)).text)
    fill(attack)
    for headers in ({}, {"hx-request": "true"}):
        chosen = "&" if "?" in path else "?"
        chosen += urllib.parse.urlencode({"q": attack, "sort": attack}, errors="replace")
        answer = await http.get(path + chosen, headers=headers)
        assert answer.status_code == 200
        parts = Parts(answer.text)
        assert parts.tags <= harmless.tags
        assert all(re.match(r"/dashboard(?![^/?])|[?#]", link) for link in parts.links)
        assert ">49<" not in answer.text


@pytest.mark.parametrize("path", [*PAGES, "/dashboard/static/dashboard.js", "/dashboard/static/none"])
async def test_each_answer_forbids_what_is_not_its_own(http, path):
    """A value that were not escaped could run nothing, ask nobody, and be framed nowhere."""
    headers = (await http.get(path)).headers
    policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("name", ["../app.py", "..%2fapp.py", "%2e%2e/templates/page.html", ".", ""])
async def test_no_other_files_are_served(http, name):
    """Only those that pages need, by name."""
    assert (await http.get(f"/dashboard/static/{name}")).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_nothing_can_be_changed(http, method):
    """It only shows."""
    assert (await http.request(method, "/dashboard")).status_code == 405
