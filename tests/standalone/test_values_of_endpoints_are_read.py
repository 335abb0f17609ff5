"""The values of `--endpoint`: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headgate.standalone import urls


@pytest.mark.parametrize(
    ("text", "host", "port", "name"),
    [
        ("http://gpu-1:8000", "gpu-1", 8000, "gpu-1-8000"),
        ("http://gpu-1", "gpu-1", 80, "gpu-1"),
        ("https://Engines.Example.com", "engines.example.com", 443, "engines-example-com"),
        ("big=http://10.0.0.7:8000/", "10.0.0.7", 8000, "big"),
        ("http://[fd00::7]:8000", "fd00::7", 8000, "fd00-7-8000"),
        (
            "srv://_http._tcp.engines.example.com",
            "_http._tcp.engines.example.com",
            0,
            "http-tcp-engines-example-com",
        ),
    ],
)
def test_a_url_leads_to_a_server(text: str, host: str, port: int, name: str) -> None:
    found = urls.parse(text)
    assert (found.host, found.port, found.name) == (host, port, name)


def test_options_say_how_the_engine_is_used() -> None:
    found = urls.parse("p1=https://gpu-1/llama/,weight=2.5,role=prefill,engine=sglang,kv-connector=mooncake")
    assert found.name == "p1"
    assert found.is_https
    assert found.prefix == "/llama"
    assert (found.weight, found.role) == (2.5, "prefill")
    assert (found.engine, found.connector) == ("SGLang", "mooncake")


def test_a_dns_service_says_whether_it_speaks_https() -> None:
    assert urls.parse("srv://_https._tcp.example.com").is_https
    assert not urls.parse("srv://_vllm._tcp.example.com").is_https


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gpu-1:8000", "did you mean http://gpu-1:8000?"),
        ("a=gpu-1:8000", "did you mean a=http://gpu-1:8000?"),
        ("ftp://gpu-1", "none of the schemes http, https and srv"),
        ("http://", "has no host"),
        ("http://gpu-1:0", "0 is none"),
        ("http://gpu-1:99999", "is no URL"),
        ("http://[fd00::7", "is no URL"),
        ("http://a_b!c", "is no host name"),
        ("http://me:secret@gpu-1", "remove them"),
        ("http://gpu-1?x=1", "no query"),
        ("http://gpu-1:8000/v1", "remove /v1"),
        ("http://gpu-1/a b", "cannot precede"),
        ("http://gpu-1/../x", "cannot precede"),
        ("Big=http://gpu-1", "lower-case letters"),
        ("http://gpu-1,weight=0", "weight=0 is no number from 0.001 to 1000"),
        ("http://gpu-1,weight=nan", "is no number"),
        ("http://gpu-1,role=chief", "none of prefill, decode and both"),
        ("http://gpu-1,engine=llama.cpp", "none of vLLM, SGLang"),
        ("http://gpu-1,kv-connector=tape", "none of http, lmcache, nixl, mooncake"),
        ("http://gpu-1,wieght=2", "'wieght=2' is no option"),
        ("http://gpu-1,weight=1,weight=2", "given twice"),
        ("srv://engines.example.com", "is no DNS service"),
        ("srv://_http._tcp.example.com:80", "DNS tells it"),
    ],
)
def test_a_value_that_means_nothing_is_told_with_a_fix(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        urls.parse(text)


def test_all_mistakes_are_told_at_once() -> None:
    given_ = ["gpu-1", "http://gpu-2", "http://gpu-2", "a=http://gpu-3", "a=http://gpu-4", "http://x,role=y"]
    found, problems = urls.read(given_)
    assert [each.host for each in found] == ["gpu-2", "gpu-3"]
    assert len(problems) == 4
    assert "is the same server" in problems[1]
    assert "'a=http://gpu-3' has the name a" in problems[2]


def test_a_variable_split_at_its_commas_is_put_together() -> None:
    found, problems = urls.read(["a=http://x", "weight=2", "role=decode", "http://y", "weight=http://z"])
    assert not problems
    assert [(each.name, each.weight, each.role) for each in found] == [
        ("a", 2.0, "decode"),
        ("y", None, ""),
        ("weight", None, ""),
    ]


def test_names_that_are_derived_differ() -> None:
    found, problems = urls.read(["http://a.b:80", "http://a-b:80", "http://a--b:80"])
    assert not problems
    assert [each.name for each in found] == ["a-b-80", "a-b-80-2", "a-b-80-3"]


@given(
    st.one_of(
        st.text(), st.text().map("http://{}".format), st.from_regex(r"[a-z]+=srv://_x\._tcp\..{0,9}(,.*)?")
    )
)
@example("http://\u2028")
@example("=http://x")
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        found = urls.parse(text)
        assert 0 < len(found.name) <= urls.MAX_NAME_CHARACTERS
        assert found.host
