"""Where the admin port needs a credential, people type it once; the cookie opens the dashboard only."""

import re
import time
from http.cookies import SimpleCookie

import httpx2
import pytest
from cryptography.fernet import Fernet
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from headgate import dashboard
from headgate.dashboard import signing_in
from headgate.serving import Closed, Guarded

KEY = "hg_admin_" + "a" * 32


class Keys:
    """What opens the pages now."""

    def __init__(self):
        self.valid = {KEY.encode()}
        self.rejected = []

    def closed(self, credential):
        if credential in self.valid:
            return None
        if not credential:
            return Closed("missing", 401, "this needs a credential")
        return Closed("no_admin", 403, "<b>not an admin's</b>")


@pytest.fixture
def keys():
    return Keys()


@pytest.fixture
async def client(workers, keys):
    async def seen(request):
        return JSONResponse(dict(request.headers))

    routes = [*dashboard.application(workers).routes, Route("/debug/seen", seen), Route("/dashboardx", seen)]
    app = dashboard.SignIn(Guarded(Starlette(routes=routes), keys.closed, keys.rejected.append))
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost:8081") as made:
        yield made


async def sign_in(client, token=KEY):
    return await client.post("/dashboard/sign-in", data={"token": token})


async def test_a_page_asks_for_the_credential(client, keys):
    """The form is the answer to the page itself, with its status, so that nothing is served without one."""
    answer = await client.get("/dashboard")
    assert answer.status_code == 401
    assert 'name="token"' in answer.text
    assert '<p role="alert">' not in answer.text
    assert keys.rejected == ["missing"]
    policy = answer.headers["content-security-policy"]
    nonce = re.search(r"'nonce-([^']+)'", policy)[1]
    assert f'nonce="{nonce}"' in answer.text
    assert "script" not in policy


async def test_the_cookie_opens_the_dashboard(client):
    """Scripts cannot read it, and other sites cannot use it."""
    answer = await sign_in(client)
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
    cookie = next(iter(SimpleCookie(answer.headers["set-cookie"]).values()))
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "strict", "/dashboard")
    assert KEY not in answer.headers["set-cookie"]
    page = await client.get("/dashboard")
    assert page.status_code == 200
    assert "Sign out" in page.text


@pytest.mark.parametrize("path", ["/debug/seen", "/dashboardx", "/debug/fleet", "/"])
async def test_the_cookie_opens_nothing_else(client, path):
    """Whatever else the admin port has takes only credentials themselves."""
    cookie = (await sign_in(client)).headers["set-cookie"].partition(";")[0]
    assert (await client.get(path, headers={"cookie": cookie})).status_code == 401


async def test_the_printed_address_leads_there(client):
    """Somebody opens the admin port without a path: a browser goes on, and a program is not served."""
    answer = await client.get("/")
    assert (answer.status_code, answer.headers["refresh"]) == (401, "0; url=/dashboard")
    assert 'name="token"' in answer.text
    wrong = await client.get("/", headers={"authorization": "Bearer wrong"})
    assert wrong.status_code == 403
    assert "refresh" not in wrong.headers


async def test_wrong_credentials_are_told(client, keys):
    """In words that are escaped, with the form for another try."""
    answer = await sign_in(client, "wrong")
    assert answer.status_code == 403
    assert "&lt;b&gt;not an admin" in answer.text
    assert "set-cookie" not in answer.headers
    assert keys.rejected == ["no_admin"]
    assert "wrong" not in answer.text.replace("wrong-", "")


async def test_a_revoked_credential_ends_it(client, keys):
    """The cookie is no more than the credential in it."""
    await sign_in(client)
    keys.valid.clear()
    answer = await client.get("/dashboard")
    assert answer.status_code == 403
    assert 'name="token"' in answer.text


async def test_it_ends_after_hours(client, monkeypatch):
    """Whoever finds the cookie later learns nothing."""
    await sign_in(client)
    monkeypatch.setattr(signing_in, "LASTS_S", -1)
    assert (await client.get("/dashboard")).status_code == 401


async def test_signing_out_removes_it(client):
    await sign_in(client)
    assert (await client.post("/dashboard/sign-out")).status_code == 303
    assert (await client.get("/dashboard")).status_code == 401


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/static/dashboard.js", "/dashboard/none"])
@pytest.mark.parametrize(
    "cookie",
    [
        "headgate_dashboard_8081=",
        f"headgate_dashboard_8081={KEY}",
        "headgate_dashboard_8081=" + Fernet(Fernet.generate_key()).encrypt(KEY.encode()).decode(),
        "headgate_dashboard_8081=" + "g" * 20_000,
        'headgate_dashboard_8081="\\777\\"',
        "headgate_dashboard_8081=\xff; x",
        "; ; =;",
    ],
)
async def test_made_up_cookies_open_nothing(client, keys, path, cookie):
    """Neither the credential itself nor what another process has sealed."""
    answer = await client.get(path, headers=[(b"cookie", cookie.encode("latin-1"))])
    assert answer.status_code == 401


async def test_cookies_of_others_do_not_hide_it(client):
    """Servers on other ports of the host may set any."""
    cookie = (await sign_in(client)).headers["set-cookie"].partition(";")[0]
    client.cookies.clear()
    other = 'a="b\\"; headgate_dashboard_8081=x; =; headgate_dashboard_8081="' + "\\" * 100 + '"; '
    answer = await client.get("/dashboard", headers={"cookie": f"{other}{cookie}; b=c"})
    assert answer.status_code == 200


@pytest.mark.parametrize("text", ["\\", '\\"', "\\101", "=", ";", " ", '"'])
async def test_cookies_cost_little(client, text):
    """Anybody may send one, and the supervisor reads it."""
    cookie = f'headgate_dashboard_8081="{text * (16_000 // len(text))}"'
    began = time.process_time()
    assert (await client.get("/dashboard", headers=[(b"cookie", cookie.encode())])).status_code == 401
    assert time.process_time() - began < 0.3


async def test_long_forms_are_cut_off(client, keys):
    """Before anything is made of them."""
    assert (await client.post("/dashboard/sign-in", content=b"token=" + b"x" * 100_000)).status_code == 401
    assert (
        await client.post("/dashboard/sign-in", content=b"a&" * 5_000 + b"token=" + KEY.encode())
    ).status_code == 401
    assert (await client.post("/dashboard/sign-in", content=b"\xff\xfe%zz")).status_code == 401


async def test_programs_send_the_credential_itself(client):
    """As to any other page; the form is for those who cannot."""
    assert (await client.get("/dashboard", headers={"authorization": f"Bearer {KEY}"})).status_code == 200
    answer = await client.get("/dashboard", headers={"x-api-key": "wrong"})
    assert (answer.status_code, answer.headers["content-type"]) == (403, "application/json")
    basic = await client.get("/dashboard", headers={"authorization": "Basic YTpi"})
    assert 'name="token"' in basic.text


async def test_pages_do_not_get_it(client, keys):
    """What a page shows of its request holds no credential."""
    seen = await client.get("/debug/seen", headers={"authorization": f"Bearer {KEY}"})
    assert "authorization" not in seen.json()


async def test_without_credentials_there_is_no_form(workers):
    """The admin port of a gateway that needs none."""
    app = dashboard.SignIn(Guarded(dashboard.application(workers), lambda credential: None))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as made:
        page = await made.get("/dashboard")
        assert page.status_code == 200
        assert "Sign out" not in page.text


def test_the_cookie_is_of_its_port():
    """Browsers send cookies to all ports of a host, so that two gateways need two names."""
    names = {signing_in._name({"server": ("127.0.0.1", port)}) for port in (8081, 8082)}
    assert len(names) == 2
