"""The file of providers: what is wrong is named, and no message has a key. Keys in Secrets are followed."""

import asyncio
import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import api, cluster
from headgate.api.stored_object import StoredObject
from headgate.dataplane.providers import Providers, heads, provider_file
from headgate.dataplane.providers.provider_file import ProviderFileError
from headgate.dataplane.settings.providers import Providers as Settings
from headgate.gateway.explaining import GatewayForms

GOOD = {"url": "https://host", "shape": "openai", "models": ["mini"], "key": {"environment": "KEY"}}


def _asked(path):
    return GatewayForms().request(path, [], b"", 0.0)


def _read(tmp_path, document):
    path = tmp_path / "providers.yaml"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return provider_file.read(path)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"url": "http://host/v1"}, "url: https:// and a host are needed"),
        ({"url": "https://"}, "url: https:// and a host are needed"),
        ({"url": "https://ho st"}, "url: https:// and a host are needed"),
        ({"url": "https://h\u00f6st"}, "url: https:// and a host are needed"),
        ({"url": "https://a..b"}, "url: https:// and a host are needed"),
        ({"url": "https://host:0"}, "url: https:// and a host are needed"),
        ({"url": "https://host:99999"}, "url: Port out of range"),
        ({"url": "https://sk-secret@host"}, "url: it must have no user, query or fragment"),
        ({"url": "https://host/v1?key=sk-secret"}, "url: it must have no user, query or fragment"),
        ({"url": "https://host/a/../b"}, "url: its path must have plain segments"),
        ({"url": "https://host/a b"}, "url: its path must have plain segments"),
        ({"url": "https://host/v1/chat/completions"}, "url: /chat/completions follows by itself"),
        ({"url": "https://host/v1/messages/"}, "url: /messages follows by itself"),
        ({"url": ["sk-secret"]}, "url: an https:// URL is needed"),
        ({"shape": "gemini"}, "shape: 'gemini': openai or anthropic is needed"),
        ({"shape": None}, "shape: None: openai or anthropic is needed"),
        ({"models": []}, "models: a list of names is needed"),
        ({"models": [1]}, "models: a list of names is needed"),
        ({"models": ["a,b"]}, "models: 'a,b' cannot be named in an annotation"),
        ({"key": "sk-secret"}, "key: a mapping with one of file, environment and secret is needed"),
        ({"key": {"sk-secret": 1}}, "key: unknown field: it has file, environment, secret"),
        ({"key": {"file": ["sk-secret"]}}, "key.file: the path of a file with the key is needed"),
        ({"key": {"environment": "HEADGATE_KEY"}}, "variables that begin with HEADGATE_ are settings"),
        ({"key": {}}, "key: one of file, environment and secret is needed"),
        ({"key": {"file": "a", "environment": "B"}}, "key: one of file, environment and secret is needed"),
        ({"key": {"environment": "sk-secret"}}, "the name of a variable is needed, not the key"),
        ({"key": {"secret": "default/name"}}, "key.secret: NAMESPACE/NAME/ENTRY is needed"),
        ({"ca_file": "/nowhere"}, "ca_file: /nowhere has no certificates in PEM form"),
        ({"timeout_s": 0}, "timeout_s: 0: a number of seconds from 0.1 to 3600 is needed"),
        ({"limits": {"unit": "year", "input_tokens": 1}}, "limits.unit: 'year': one of second"),
        ({"limits": {"input_tokens": 1}}, "limits.unit: it is missing: one of second"),
        ({"limits": {"unit": "day", "input_tokens": 0}}, "limits.input_tokens: 0: a whole number"),
        ({"limits": {"unit": "day"}}, "limits: input_tokens or output_tokens is needed"),
        ({"limits": 5}, "limits: a mapping with unit"),
        ({"verify": False}, "unknown field `verify`: the fields are url, shape"),
        ({"timeout": 5}, "unknown field `timeout`; did you mean `timeout_s`?"),
    ],
)
def test_what_is_wrong(tmp_path, changed, wrong):
    with pytest.raises(ProviderFileError) as raised:
        _read(tmp_path, {"cloud": GOOD | changed})
    assert wrong in str(raised.value)
    assert ": cloud: " in str(raised.value)
    assert "sk-secret" not in str(raised.value)


def test_nesting_has_a_bound(tmp_path):
    """libyaml would end the process where its stack ends."""
    with pytest.raises(ProviderFileError, match="nested more than 50 levels deep in line 1"):
        _read(tmp_path, "cloud: " + "[" * 200_000)


def test_all_at_once(tmp_path):
    """All problems of all providers."""
    guess = "unknown field `model`; did you mean `models`?"
    missing = {"url": "http://host", "key": {}, "model": ["mini"]}
    wrong = GOOD | {"limits": {"unit": "year", "input_tokens": -1}, "ca_file": "/nowhere"}
    with pytest.raises(ProviderFileError) as raised:
        _read(tmp_path, {"Cloud": GOOD, "a": missing, "b": wrong})
    path = tmp_path / "providers.yaml"
    told = [each.removeprefix(f"{path}: ").split(": ")[:2] for each in raised.value.problems]
    assert sorted(told) == [
        ["'Cloud'", "names have lower-case letters, digits and '-'"],
        *(["a", told] for told in ("key", "models", "shape", guess, "url")),
        *(["b", field] for field in ("ca_file", "limits.input_tokens", "limits.unit")),
    ]
    assert provider_file.problems(str(path)) == raised.value.problems


def test_names_that_are_there_twice(tmp_path):
    """Of which one would be ignored."""
    good = json.dumps(GOOD)
    with pytest.raises(ProviderFileError) as raised:
        _read(tmp_path, f"cloud: {good}\nspare: {{url: a, url: b}}\ncloud: {good}\n")
    assert [each.partition(": ")[2] for each in raised.value.problems][:2] == [
        "line 3: 'cloud' is there twice",
        "line 2: 'url' is there twice",
    ]


def test_a_key_in_place_of_a_variable(tmp_path):
    """Some look like one, and are not repeated."""
    _read(tmp_path, {"cloud": GOOD | {"key": {"environment": "gsk_a1B2secret"}}})
    providers = Providers(Settings(file=str(tmp_path / "providers.yaml")))
    assert providers.troubles == {"cloud": "its key is missing: the environment has no variable of this name"}


@pytest.mark.parametrize(
    "document",
    [
        "[1]",
        "a: &a [*a]",
        "x: {y",
        "Cloud: {}",
        "1: {}",
        "a: &a [x,x,x]\nb: &b [*a,*a]",
        "{}\n---\n{}",
        "a: !x",
        "a: !!bool x",
        "!!timestamp x",
        "a: !!int ''",
        "? [1]\n: 2",
        "a: {1: 2}",
        "a: !!set {b, c}",
    ],
)
def test_what_is_no_file_of_providers(tmp_path, document):
    with pytest.raises(ProviderFileError):
        _read(tmp_path, document)


def test_aliases_are_counted(tmp_path):
    """A few lines cannot take seconds."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
    with pytest.raises(ProviderFileError, match="with its aliases written out"):
        _read(tmp_path, "\n".join(lines))


@given(st.text(max_size=80))
def test_any_text_is_read_or_rejected(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, errors="replace")
    with contextlib.suppress(ProviderFileError):
        assert isinstance(provider_file.read(path), list)


@pytest.mark.parametrize(
    ("shape", "url", "path", "sent"),
    [
        ("openai", "https://host", "/v1/chat/completions", "/v1/chat/completions"),
        ("openai", "https://host/v1/", "/v1/chat/completions", "/v1/chat/completions"),
        ("openai", "https://host/v1beta/openai", "/v1/embeddings", "/v1beta/openai/embeddings"),
        ("anthropic", "https://host", "/v1/messages", "/v1/messages"),
        ("anthropic", "https://host/v1", "/v1/messages", "/v1/messages"),
        ("anthropic", "https://host/team", "/v1/messages/count_tokens", "/team/v1/messages/count_tokens"),
    ],
)
def test_urls_are_those_of_sdks(tmp_path, shape, url, path, sent):
    (read,) = _read(tmp_path, {"cloud": GOOD | {"shape": shape, "url": url}})
    head = heads.request(read.provider, b"key", _asked(path), 0)
    assert head.startswith(f"POST {sent} HTTP/1.1\r\nhost: host\r\n".encode())


@pytest.mark.parametrize(
    ("host", "shown"), [("Host.a-b:8443", "host.a-b:8443"), ("[::1]", "[::1]"), ("127.0.0.1", "127.0.0.1")]
)
def test_hosts(tmp_path, host, shown):
    (read,) = _read(tmp_path, {"cloud": GOOD | {"url": f"https://{host}"}})
    head = heads.request(read.provider, b"key", _asked("/v1/completions"), 0)
    assert f"\r\nhost: {shown}\r\n".encode() in head


async def test_a_key_in_a_secret(tmp_path, eventually):
    """It is followed by its name, with no other Secret."""
    _read(tmp_path, {"cloud": GOOD | {"key": {"secret": "default/cloud/token"}}})
    providers = Providers(Settings(file=str(tmp_path / "providers.yaml")))
    assert "there is no Secret default/cloud" in providers.troubles["cloud"]
    objects = cluster.LocalObjects()
    running = asyncio.create_task(providers.run(objects))
    try:
        for text in ("sk-first", "sk-second"):
            objects.replace([_stored("other", token="sk-other"), _stored("cloud", token=text)])
            wanted = f"Bearer {text}\r\n".encode()
            await eventually(lambda wanted=wanted: wanted in _head(providers))
        objects.replace([_stored("cloud", other="x")])
        await eventually(lambda: not providers.usable())
        assert "has no entry token" in providers.troubles["cloud"]
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _head(providers):
    usable = providers.usable()
    return providers.head(usable[0].pool(), _asked("/v1/completions"), 0) if usable else b""


def _stored(name, **data):
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    metadata = {"name": name, "namespace": "default"}
    raw = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}
    return StoredObject(api.Secret.resource.path(), "default", name, json.dumps(raw).encode())
