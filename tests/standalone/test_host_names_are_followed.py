"""Each address behind a host name is an endpoint, and so is each target of a DNS service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import dns.asyncresolver
import dns.resolver
import pytest

from headgate.standalone import endpoint, resolving, urls, watching
from headgate.standalone.endpoint import FollowedUrl
from headgate.standalone.resolving import LookupFailedError, Resolver


class Pace(NamedTuple):
    ask_s: float = 0.05
    resolve_s: float = 0.05


@contextlib.asynccontextmanager
async def following(url: str, resolver: Resolver) -> AsyncIterator[FollowedUrl]:
    async with asyncio.TaskGroup() as tasks:
        followed = FollowedUrl(urls.parse(url), resolver, Pace, asyncio.Semaphore(64), lambda: None)
        followed.start(tasks)
        yield followed
        followed.stop()


def ready(followed: FollowedUrl) -> set[str]:
    return {each.host for each in followed.engines() if each.is_ready}


@pytest.fixture(autouse=True)
def _soon(monkeypatch) -> None:
    monkeypatch.setattr(endpoint, "SOONEST_S", 0.05)
    monkeypatch.setattr(watching, "AGAIN_S", 0.05)
    monkeypatch.setattr(resolving, "TIMEOUT_S", 0.3)


async def test_addresses_that_come_and_go_are_followed(names, start_engine, until) -> None:
    """The first keeps the name of the URL; others have their address in theirs."""
    one = await start_engine("127.0.0.1")
    await start_engine("127.0.0.2", port=one.port)
    names.say("gpus.test", "A", "127.0.0.1")
    async with following(f"g=http://gpus.test:{one.port}", Resolver([names.address])) as followed:
        await until(lambda: ready(followed) == {"127.0.0.1"})
        names.say("gpus.test", "A", "127.0.0.1", "127.0.0.2")
        await until(lambda: ready(followed) == {"127.0.0.1", "127.0.0.2"})
        assert {each.name for each in followed.engines()} == {"g", f"g-127-0-0-2-{one.port}"}
        names.say("gpus.test", "A", "127.0.0.2")
        await until(lambda: ready(followed) == {"127.0.0.2"})
        assert [each.name for each in followed.engines()] == [f"g-127-0-0-2-{one.port}"]


async def test_names_of_models_write_no_lines_of_the_log(start_engine, until, caplog) -> None:
    """Engines choose them."""
    caplog.set_level("INFO")
    one = await start_engine(models=["tiny\nFAKE", "\x1b[31mred", "x" * 900, "plain"])
    async with following(f"g=http://127.0.0.1:{one.port}", Resolver()) as followed:
        await until(lambda: ready(followed))
    told = next(each.getMessage() for each in caplog.records if "serves" in each.getMessage())
    assert told.isprintable()
    assert "plain, 'tiny\\nFAKE', " in told
    assert len(told) < 300


@pytest.mark.parametrize("fault", ["silent", "SERVFAIL"])
async def test_the_last_addresses_stay_while_lookups_fail(names, start_engine, until, caplog, fault) -> None:
    """Whether or not they answer; the failure is told once."""
    one = await start_engine("127.0.0.1")
    names.say("gpus.test", "A", "127.0.0.1", "127.0.0.9")
    async with following(f"g=http://gpus.test:{one.port}", Resolver([names.address])) as followed:
        await until(lambda: ready(followed) == {"127.0.0.1"})
        names.fault = fault
        await until(lambda: followed.failed_lookups >= 3)
        assert {each.host for each in followed.engines()} == {"127.0.0.1", "127.0.0.9"}
        assert "the addresses known so far stay in use" in caplog.text
        assert followed.problem
        names.fault = ""
        names.say("gpus.test", "A", "127.0.0.1")
        await until(lambda: not followed.problem)
        assert {each.host for each in followed.engines()} == {"127.0.0.1"}


async def test_of_a_name_that_is_gone_only_who_answers_stays(names, start_engine, until) -> None:
    one = await start_engine("127.0.0.1")
    names.say("gpus.test", "A", "127.0.0.1", "127.0.0.9")
    async with following(f"g=http://gpus.test:{one.port}", Resolver([names.address])) as followed:
        await until(lambda: ready(followed) == {"127.0.0.1"})
        names.records.clear()
        await until(lambda: {each.host for each in followed.engines()} == {"127.0.0.1"})
        assert "no AAAA record" in followed.problem


async def test_a_name_that_does_not_exist_yet_may_come(names, start_engine, until) -> None:
    one = await start_engine("127.0.0.1")
    async with following(f"g=http://gpus.test:{one.port}", Resolver([names.address])) as followed:
        await until(lambda: followed.failed_lookups > 0)
        assert followed.is_known
        names.say("gpus.test", "A", "127.0.0.1")
        await until(lambda: ready(followed) == {"127.0.0.1"})


async def test_records_are_looked_up_again_when_they_expire(names, until) -> None:
    """But not after longer than the setting says."""
    names.say("gpus.test", "A", "127.0.0.1", ttl=3600)
    found = await Resolver([names.address]).find(urls.parse("http://gpus.test:1"))
    assert found.ttl_s == 3600
    async with following("http://gpus.test:1", Resolver([names.address])):
        await until(lambda: names.asked.count(("gpus.test", "A")) >= 4)


@pytest.mark.parametrize("is_answered", [True, False])
async def test_a_url_that_is_stopped_in_a_lookup_has_ended(names, monkeypatch, is_answered) -> None:
    """Although the answer, or its failure, comes at that moment: asyncio.wait_for, by which dnspython waits,
    returns it then in Python 3.11, as if nobody had cancelled."""
    real, is_asked = dns.asyncresolver.Resolver.resolve, asyncio.Event()
    names.say("gpus.test", "A", "127.0.0.1")

    async def resolve(self: dns.asyncresolver.Resolver, *asked: str) -> dns.resolver.Answer:
        with contextlib.suppress(asyncio.CancelledError):
            is_asked.set()
            await asyncio.Event().wait()
        if not is_answered:
            raise dns.resolver.LifetimeTimeout(timeout=1, errors=[])
        return await real(self, *asked)

    monkeypatch.setattr(dns.asyncresolver.Resolver, "resolve", resolve)
    monkeypatch.setattr(resolving, "TIMEOUT_S", 60.0)
    async with asyncio.timeout(30), following("http://gpus.test:1", Resolver([names.address])):
        await is_asked.wait()


async def test_targets_of_a_service_are_endpoints(names, start_engine, until) -> None:
    """Those of the first priority, with their ports, each with its share."""
    one, two = await start_engine("127.0.0.1"), await start_engine("127.0.0.2")
    names.say(
        "_http._tcp.gpus.test", "SRV", f"0 30 {one.port} a.test.", f"0 10 {two.port} b.test.", "9 1 1 c.test."
    )
    names.say("a.test", "A", "127.0.0.1")
    names.say("b.test", "A", "127.0.0.2")
    async with following("s=srv://_http._tcp.gpus.test", Resolver([names.address])) as followed:
        await until(lambda: ready(followed) == {"127.0.0.1", "127.0.0.2"})
        assert {each.port: round(each.weight, 3) for each in followed.engines()} == {
            one.port: 1.0,
            two.port: 0.333,
        }
        assert {each.name for each in followed.engines()} == {
            f"s-127-0-0-1-{one.port}",
            f"s-127-0-0-2-{two.port}",
        }


async def test_targets_with_https_keep_the_names_in_their_certificates(names) -> None:
    names.say("_https._tcp.gpus.test", "SRV", "0 0 443 a.test.", "0 0 443 b.test.")
    found = await Resolver([names.address]).find(urls.parse("srv://_https._tcp.gpus.test"))
    assert [each.host for each in found.servers] == ["a.test", "b.test"]
    assert {each.share for each in found.servers} == {1.0}


async def test_addresses_of_ipv6_count_if_there_are_no_others(names) -> None:
    names.say("gpus.test", "AAAA", "fd00::7")
    find = Resolver([names.address]).find
    assert [each.host for each in (await find(urls.parse("http://gpus.test:1"))).servers] == ["fd00::7"]
    names.say("gpus.test", "A", "127.0.0.1")
    assert [each.host for each in (await find(urls.parse("http://gpus.test:1"))).servers] == ["127.0.0.1"]
    assert resolving.one_family(["::1", "127.0.0.1", "::1"]) == ["127.0.0.1"]


async def test_a_name_with_many_addresses_is_cut(names) -> None:
    names.say("gpus.test", "A", *(f"127.0.{number // 250}.{number % 250 + 1}" for number in range(100)))
    resolving_ = Resolver([names.address])
    found = await resolving_.find(urls.parse("http://gpus.test:1"))
    assert (len(found.servers), found.is_cut) == (100, False)


async def test_a_service_that_says_it_is_not_there_is_gone(names) -> None:
    names.say("_http._tcp.gpus.test", "SRV", "0 0 0 .")
    with pytest.raises(LookupFailedError) as error:
        await Resolver([names.address]).find(urls.parse("srv://_http._tcp.gpus.test"))
    assert error.value.is_gone


async def test_the_system_knows_the_names_of_this_machine(start_engine, until) -> None:
    """Both addresses of a machine are one endpoint."""
    one = await start_engine("127.0.0.1")
    async with following(f"http://localhost:{one.port}", Resolver()) as followed:
        await until(lambda: ready(followed) == {"127.0.0.1"})
    with pytest.raises(LookupFailedError) as error:
        await Resolver().find(urls.parse("http://does-not-exist.invalid:1"))
    assert "does-not-exist.invalid" in str(error.value)


@pytest.mark.parametrize("text", ["dns.example.com", "10.0.0.2:0", "10.0.0.2:x", "", "10.0.0.2:99999"])
def test_a_dns_server_is_an_address(text: str) -> None:
    assert "write one such as 10.0.0.2" in resolving.server_problems([text])[0]
    assert not resolving.server_problems(["10.0.0.2", "10.0.0.2:8600", "fd00::2", "[fd00::2]:53"])


async def test_engines_are_recognised_and_taken_out(start_engine, until) -> None:
    """One that answers with something else gets no requests; one that is silent for a while neither."""
    one = await start_engine(page=b"# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 0\n")
    async with following(f"http://127.0.0.1:{one.port}", Resolver()) as followed:
        await until(lambda: ready(followed))
        (engine,) = followed.engines()
        assert (engine.kind, engine.listing.models) == ("SGLang", {"tiny"})
        one.status = 401
        await until(lambda: not ready(followed))
        assert "wants a key" in followed.shown()["servers"][0]["problem"]
        assert followed.engines()[0].listing.models == {"tiny"}
        one.status, one.page = 200, b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n"
        await until(lambda: ready(followed))
        assert followed.engines()[0].kind == "vLLM"
