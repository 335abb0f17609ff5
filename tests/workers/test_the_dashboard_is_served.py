"""The dashboard of a real gateway with two workers, in a real browser."""

import json
import os

import httpx2
from playwright.async_api import async_playwright

from headgate.auth import keys


def keys_file(path):
    """Returns the key of an operator, and one of a client."""
    made = [keys.create(name, "", admin=name == "ops") for name in ("ops", "team-a")]
    fields = ("id", "tenant", "sha256", "admin")
    path.write_text(json.dumps([{name: getattr(key, name) for name in fields} for _, key in made]))
    path.chmod(0o600)
    return [shown for shown, _ in made]


async def sign_in(page, url, key):
    await page.goto(f"{url}/dashboard")
    await page.get_by_label("Admin key or token").fill(key)
    await page.keyboard.press("Enter")
    await page.locator("#live").wait_for()


async def test_an_operator_signs_in_and_looks(chromium, start_gateway, tmp_path):
    """All pages are there for who has a key, and gone with the session; the traffic that comes is on them."""
    key, client = keys_file(tmp_path / "keys.json")
    gateway = await start_gateway("--workers", "2", "--auth-keys-file", str(tmp_path / "keys.json"))
    ask = {"json": {"model": "m", "prompt": "x"}, "headers": {"x-api-key": client}}
    async with httpx2.AsyncClient(trust_env=False) as http:
        for _ in range(5):
            assert (await http.post(f"{gateway.url}/v1/completions", **ask)).status_code == 200
        wrong = ask | {"json": {"model": "<b>nope</b>", "prompt": "x"}}
        assert (await http.post(f"{gateway.url}/v1/completions", **wrong)).status_code == 404
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=sandbox)
        page = await browser.new_page()
        page.set_default_timeout(60_000)
        await sign_in(page, gateway.admin_url, key)
        endpoints = await page.locator("#endpoints ~ .scrolled").inner_text()
        assert "default/engine-0" in endpoints
        assert "default/engine-1" in endpoints
        await page.get_by_text("over 2 workers").wait_for()
        await page.get_by_role("link", name="Requests").click()
        assert "<b>nope</b>" in await page.locator("#live").inner_text()
        assert await page.locator("#slow ~ .scrolled tbody tr").count() == 5
        await page.locator("#rejected ~ .scrolled a").first.click()
        await page.get_by_text("status 404, model_not_found").wait_for()
        await page.get_by_role("link", name="Routes").click()
        await page.get_by_text("default/m 100%").wait_for()
        await page.get_by_role("link", name="Queues").click()
        await page.get_by_text("a new one would be sent at once").wait_for()
        await page.get_by_role("link", name="Models").click()
        await page.get_by_role("heading", name="Autoscaling").wait_for()
        assert "What cannot be shown" not in await page.locator("#live").inner_text()
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_label("Admin key or token").wait_for()
        assert (await page.context.cookies()) == []
        await browser.close()


async def test_other_sites_cannot_sign_in(start_gateway, tmp_path):
    """Nor point their own names here, so that browsers take the dashboard for theirs."""
    key, _ = keys_file(tmp_path / "keys.json")
    gateway = await start_gateway("--auth-keys-file", str(tmp_path / "keys.json"))
    url = f"{gateway.admin_url}/dashboard"
    async with httpx2.AsyncClient(trust_env=False) as http:
        for headers, status in (
            ({"origin": "http://evil.example"}, 403),
            ({"origin": "null"}, 403),
            ({"host": "evil.example"}, 421),
            ({"origin": gateway.admin_url}, 303),
        ):
            answer = await http.post(f"{url}/sign-in", data={"token": key}, headers=headers)
            assert answer.status_code == status, headers
        assert (await http.get(url, headers={"host": "evil.example"})).status_code == 421
