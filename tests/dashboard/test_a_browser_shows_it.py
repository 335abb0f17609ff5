"""Chromium as operators use it: news without a reload, by mouse and keyboard, in light and dark."""

import asyncio
from pathlib import Path

import axe_playwright_python
import pytest

from headgate.dashboard import fleet
from headgate.dataplane.records.kept_story import KeptPage

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
PAGES = (
    "/dashboard",
    "/dashboard/requests",
    "/dashboard/request?worker=0&number=1",
    "/dashboard/routes",
    "/dashboard/queues",
    "/dashboard/models",
)
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def some(workers, endpoint, pool, kept, told, monkeypatch):
    """Something of everything, on several pages."""
    monkeypatch.setattr(fleet, "PAGE_ROWS", 6)
    rows = [endpoint(f"e{number:03}") for number in range(16)]
    rows[0] = endpoint("e000", state="ejected", why="gets no requests for another 4 s")
    rows[1] = endpoint("e001", state="avoided", why="it has just failed")
    workers.has(
        0,
        *rows,
        pools=(pool(endpoints=16, requests_running=3, arrivals=2.5, kv_usage=0.4),),
        kept=KeptPage([kept(2)], [kept(1)], [kept(3)], 1),
        routes=told.routes_page(routes=[told.route()], tenants=[told.tenant()], denied=["no Pods"]),
        limits={"default/m": told.limit(), "tenant/team-a/minute": told.limit()},
        flow=told.queue(("team-a", 3)),
    )
    workers.there = told.objects()
    return rows


async def violations(page):
    """What axe finds, in words."""
    await page.evaluate(AXE)
    found = await page.evaluate("rules => axe.run({runOnly: rules})", RULES)
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]} {node['failureSummary']}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_is_accessible(look, some, path, scheme):
    """By the rules of WCAG 2.2 AA, with the contrast of both colour schemes."""
    page = await look(path, color_scheme=scheme)
    assert await violations(page) == []


@pytest.mark.parametrize("path", PAGES)
async def test_it_fits_a_phone(look, some, path):
    """Tables scroll within themselves, so that the page does not."""
    page = await look(path, viewport={"width": 360, "height": 640})
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360


async def test_figures_change_without_a_reload(look, some, workers, endpoint, pool):
    """And what somebody types meanwhile stays, with the focus in its place."""
    page = await look()
    await page.evaluate("window.isSamePage = true")
    search = page.get_by_label("Search")
    await search.fill("half a wo")
    workers.has(0, endpoint("fresh"), pools=(pool(endpoints=1, requests_running=77),))
    await page.get_by_text("fresh").wait_for()
    assert await page.locator(".figures").inner_text() != ""
    assert await search.input_value() == "half a wo"
    assert await search.evaluate("each => each === document.activeElement")
    assert await page.evaluate("window.isSamePage")
    # It is drawn a moment after the text is there.
    await page.locator('#chart-requests[aria-label*="running 77, queued 0"]').wait_for()


async def test_updates_can_be_paused(look, some, workers, endpoint):
    """By keyboard; what moves on its own must be stoppable (WCAG 2.2.2)."""
    page = await look()
    pause = page.get_by_role("button", name="Pause updates")
    await pause.focus()
    await page.keyboard.press("Enter")
    paused = page.get_by_role("button", name="Updates are paused")
    assert await paused.get_attribute("aria-pressed") == "true"
    sent = []  # what was sent before may still be answered
    page.on("request", lambda request: sent.append(request.url))
    await asyncio.sleep(2.5)
    assert sent == []
    async with page.expect_request("**"):
        await paused.click()


async def test_the_focus_stays_in_what_is_replaced(look, some, workers):
    """A link in the live part keeps the focus over news, or nobody could follow it by keyboard."""
    page = await look()
    link = page.get_by_role("link", name="Next")
    await link.focus()
    asked = len(workers.asked)
    while len(workers.asked) == asked:
        await asyncio.sleep(0.1)
    await asyncio.sleep(0.5)
    assert await link.evaluate("each => each === document.activeElement")
    await page.keyboard.press("Enter")
    await page.get_by_text("7 to 12 of 16").wait_for()


async def test_screen_readers_hear_of_trouble_only(look, some, workers, endpoint):
    """Figures that change all the time are not read aloud. An endpoint that goes out is; the next one only
    after a while."""
    page = await look("/dashboard?sort=requests")
    status = page.get_by_role("status")
    workers.has(0, *some[:-1], endpoint("e015", requests=50))
    await page.get_by_text("50", exact=True).wait_for()
    assert await status.text_content() == ""
    for number in (2, 3):
        some[number] = endpoint(f"e{number:03}", state="ejected", why=f"fails for the time {number}")
        workers.has(0, *some)
        await page.get_by_text(f"fails for the time {number}").wait_for()
        # It is told a moment after the text is there.
        await status.filter(has_text="2 of 16 endpoints get no requests.").wait_for(state="attached")


async def test_it_works_without_scripts(look, some):
    """As a page that shows the state when it was loaded, with search and pages."""
    page = await look(java_script_enabled=False)
    await page.get_by_label("Search").fill("e01")
    await page.get_by_role("button", name="Show").click()
    assert "1 to 6 of 6" in await page.locator("main").inner_text()


async def test_keyboards_can_skip_the_navigation(look, some):
    """The first stop leads to the content."""
    page = await look()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    assert await page.evaluate("document.activeElement.id") == "main"


async def test_it_runs_nothing_of_what_it_shows(look, attack_all):
    """With attacks in all values, nothing of them loads, and no script of theirs runs."""
    attack_all()
    page = await look("/dashboard?q=" + "%3Cimg%20src=x%20onerror=alert(1)%3E")
    await page.wait_for_selector("#charts:not([hidden])")
    assert await page.title() == "Fleet · Headgate"
    assert await page.locator("main img, main svg, main script").count() == 0
