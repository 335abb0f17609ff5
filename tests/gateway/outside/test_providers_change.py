"""The file of providers and their keys are followed; bad edits are told, and change nothing."""

import json
import logging
import os

import pytest

from headgate.gateway import gauges, pages

CHAT = {"model": "big", "messages": []}


def answers(call):
    call.answer(b'{"choices":[]}', **{"content-type": "application/json"})


@pytest.fixture
async def cloud(outside):
    return await outside.provider(answers)


async def test_another_key(outside, cloud):
    """A key is rotated by writing its file."""
    gateway = await outside.gateway(cloud)
    await gateway.ask(CHAT)
    (outside.directory / "key").write_text("sk-next")
    gateway.shell.services.providers.look()
    await gateway.ask(CHAT)
    assert cloud.calls[1].header("authorization") == "Bearer sk-next"


async def test_it_is_turned_off(outside, cloud):
    """A provider that is removed gets nothing more, and its series end."""
    gateway = await outside.gateway(cloud)
    assert (await gateway.ask(CHAT)).status == 200
    (outside.directory / "providers.yaml").write_text("")
    gateway.shell.services.providers.look()
    assert (await gateway.ask(CHAT)).status == 503
    assert len(cloud.calls) == 1
    assert gateway.metric("headgate_gateway_requests_total", model="cloud/mini") == 0


async def test_settings_without_the_file(outside, cloud):
    gateway = await outside.gateway(cloud)
    gateway.shell.change(gateway.shell.settings.replace(providers_file=None))
    assert (await gateway.ask(CHAT)).status == 503
    assert not cloud.calls


@pytest.mark.parametrize("text", ["{", "- a", "cloud: {url: 'http://example.com'}", "cloud: 1"])
async def test_a_bad_edit(outside, cloud, text, caplog):
    """The last valid file stays in effect."""
    gateway = await outside.gateway(cloud)
    (outside.directory / "providers.yaml").write_text(text)
    gateway.shell.services.providers.look()
    assert "what it said before stays in effect" in caplog.text
    assert (await gateway.ask(CHAT)).status == 200
    assert gateway.shell.statistics()["providers"]["troubles"][""]
    gauges.add_gauges(gateway.registry, gateway.shell)
    assert gateway.metric("headgate_gateway_providers_valid") == 0
    outside.write(cloud={"url": f"https://127.0.0.1:{cloud.port}"})
    caplog.set_level(logging.INFO)
    gateway.shell.services.providers.look()
    assert "is in effect again" in caplog.text
    assert gateway.shell.statistics()["providers"]["troubles"] == {}


async def test_an_edit_while_it_is_read(outside, cloud, monkeypatch):
    """What is written between the reading of a file and the next look is read at that look."""
    from headgate.dataplane.providers import provider_file

    gateway = await outside.gateway(cloud)
    files = gateway.shell.services.providers
    files.look()
    url = f"https://127.0.0.1:{cloud.port}"
    read = provider_file.read

    def read_too_early(path):
        found = read(path)
        outside.write(cloud={"url": url}, late={"url": url})
        return found

    outside.write(cloud={"url": url}, early={"url": url})
    monkeypatch.setattr(provider_file, "read", read_too_early)
    files.look()
    monkeypatch.undo()
    files.look()
    assert [each.name for each in files.usable()] == ["cloud", "late"]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.unlink(), "cannot be read: No such file or directory"),
        (lambda path: path.chmod(0o640), "is open to others (mode 0640)"),
        (lambda path: path.write_text("two words"), "one line of visible ASCII characters is needed"),
        (lambda path: path.write_text("a\r\nx-evil: b"), "one line of visible ASCII characters is needed"),
        (lambda path: path.write_text(""), "one line of visible ASCII characters is needed"),
    ],
)
async def test_a_key_that_cannot_be_used(outside, cloud, spoil, why, caplog):
    """The provider is passed over, until the key is back."""
    caplog.set_level(logging.WARNING)
    gateway = await outside.gateway(cloud)
    gauges.add_gauges(gateway.registry, gateway.shell)
    key = outside.directory / "key"

    def usable():
        return gateway.metric("headgate_gateway_provider_usable", provider="cloud")

    spoil(key)
    gateway.shell.services.providers.look()
    assert why in caplog.text
    assert (await gateway.ask(CHAT)).status == 503
    assert usable() == 0
    key.unlink(missing_ok=True)
    key.touch(mode=0o600)
    key.write_text("sk-back")
    gateway.shell.services.providers.look()
    assert (await gateway.ask(CHAT)).status == 200
    assert usable() == 1


@pytest.mark.parametrize("is_there", [True, False])
async def test_it_moves_while_a_request_is_sent(outside, is_there):
    """A connection that was kept breaks off, and would be tried anew: the key of the new place must not go to
    the old one."""

    def behave(call):
        if len(old.calls) == 1:
            return answers(call)
        moved = {"cloud": {"url": f"https://127.0.0.1:{new.port}"}} if is_there else {}
        outside.write(**moved)
        (outside.directory / "key").write_text("sk-of-the-new-place")
        gateway.shell.services.providers.look()
        return call.close()

    old, new = await outside.provider(behave), await outside.provider(answers)
    gateway = await outside.gateway(old)
    assert (await gateway.ask(CHAT)).status == 200
    response = await gateway.ask(CHAT)
    assert (response.status, response.json["error"]["code"]) == (503, "endpoint_unreachable")
    assert "sk-of-the-new-place" not in {call.header("authorization")[7:] for call in old.calls}
    assert len(old.calls) == 2
    assert (await gateway.ask(CHAT)).status == (200 if is_there else 503)


async def test_a_limit_outlasts_a_missing_key(outside, cloud):
    """What was used is not forgotten while a key is replaced."""
    limits = {"unit": "month", "output_tokens": 50}
    gateway = await outside.gateway(cloud, limits=limits)
    (limit,) = gateway.shell.plane.routes.limits.by_route.values()
    used = limit.reserve(0, 50, gateway.shell.now())
    key = outside.directory / "key"
    for text in ("", "sk-next"):
        key.write_text(text)
        gateway.shell.services.providers.look()
        response = await gateway.ask(CHAT)
        assert response.status == (429 if text else 503)
    assert not cloud.calls
    used.give_back(gateway.shell.now())


async def test_a_key_in_the_environment(outside, cloud, monkeypatch):
    monkeypatch.setitem(os.environ, "CLOUD_KEY", "sk-environment")
    gateway = await outside.gateway(cloud, key={"environment": "CLOUD_KEY"})
    await gateway.ask(CHAT)
    assert cloud.calls[0].header("authorization") == "Bearer sk-environment"


async def test_names_that_nobody_lists_are_problems_of_their_objects(outside, cloud):
    """Until the file lists them."""
    gateway = await outside.gateway(cloud, "provider=cloud", "provider=cloud/huge", "provider=lost")
    url = f"https://127.0.0.1:{cloud.port}"

    def told():
        return [each["message"] for each in pages.describe(gateway.shell)["problems"]]

    assert told() == [
        "huge is none of the models that cloud may be asked for: mini",
        "lost: there is no such provider in the gateway's providers.file",
    ]
    (problem, _) = gateway.shell.plane.problems()
    assert problem.field == "metadata.annotations[headgate.dev/fallback]"
    outside.write(cloud={"url": url, "models": ["mini", "huge"]}, lost={"url": url})
    gateway.shell.services.providers.look()
    assert told() == []
    gateway.shell.change(gateway.shell.settings.replace(providers_file=None))
    assert len(told()) == 3


async def test_explanations_say_where_it_goes(outside, cloud, provider_key):
    """Of a running gateway, and why a provider would be passed over."""
    from headgate.gateway.explaining import View, explain

    gateway = await outside.gateway(
        cloud, "provider=cloud", "provider=cloud/huge", "provider=lost", "provider=keyless"
    )
    url = f"https://127.0.0.1:{cloud.port}"
    outside.write(cloud={"url": url}, keyless={"url": url, "key": {"environment": "HEADLESS"}})
    gateway.shell.services.providers.look()

    def shown(path="/v1/chat/completions"):
        view = View.of_plane(gateway.shell.plane, gateway.shell.now())
        found = explain(view, path, [], json.dumps(CHAT).encode())
        assert provider_key not in repr(found)
        return {each.name: each.why_not for each in found.fallbacks}

    assert shown() == {
        "provider=cloud": "",
        "provider=cloud/huge": "huge is none of the models that cloud may be asked for: mini",
        "provider=lost": "lost: there is no such provider in the gateway's providers.file",
        "provider=keyless": "keyless: its key is missing: the environment has no HEADLESS",
    }
    assert shown("/v1/messages")["provider=cloud"] == (
        "cloud has the API of openai, which does not serve /v1/messages"
    )
