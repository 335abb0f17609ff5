"""The whole process serves TLS: from files, from a Secret, or with a certificate of its own."""

import base64
import datetime
import json
import os
import shlex
import signal
import ssl
import subprocess
import sys
import time

import httpx2
import pytest

from headgate.auth import keys
from headgate.cli.gateway import configuration
from headgate.gateway import setting_types
from headgate.serving import certificates

BODY = json.dumps({"model": "m", "prompt": "hello"})


def curl(ca: str, *arguments: str) -> str:
    """What curl gets, which must succeed."""
    done = subprocess.run(
        ["curl", "-sS", "--cacert", ca, *arguments],
        capture_output=True,
        text=True,
        timeout=30.0,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_first_try_needs_no_certificate(start_gateway, tmp_path, monkeypatch):
    """It says how to reach it, and what is served by all workers is the same as after a restart."""
    monkeypatch.chdir(tmp_path)
    shown = set()
    for _ in range(2):
        gateway = await start_gateway("--tls-self-signed", "--workers", "2")
        assert gateway.url.startswith("https://127.0.0.1:")
        (line,) = [line for line in gateway.said().splitlines() if "fingerprint" in line]
        shown.add(line.rpartition(" ")[2])
        (try_,) = [line for line in gateway.said().splitlines() if line.startswith("try: curl ")]
        *command, url = try_.removeprefix("try: curl ").split()
        assert command == ["--cacert", ".headgate/tls/ca.crt"]
        assert json.loads(curl(command[1], url))["object"] == "list"
        written = "%{http_version} %{http_code}"
        sent = ("-d", BODY, "-o", "/dev/null", "-w", written, f"{gateway.url}/v1/completions")
        assert curl(command[1], "--http2", *sent) == "2 200"
        assert curl(command[1], "--http1.1", *sent) == "1.1 200"
        assert await gateway.stop() == 0
    assert len(shown) == 1
    assert (tmp_path / ".headgate/tls/gateway.key").stat().st_mode & 0o777 == 0o600


async def test_a_first_try_on_all_addresses_can_be_verified(start_gateway, tmp_path, monkeypatch):
    """The command that it prints names a host of the certificate, which 0.0.0.0 is not."""
    monkeypatch.chdir(tmp_path)
    gateway = await start_gateway("--tls-self-signed", "--host", "0.0.0.0")
    (try_,) = [line for line in gateway.said().splitlines() if line.startswith("try: curl ")]
    *_, ca, url = try_.split()
    assert url.startswith("https://localhost:")
    assert json.loads(curl(ca, url))["object"] == "list"


async def test_a_first_try_with_keys_says_where_the_key_goes(start_gateway, tmp_path, monkeypatch):
    """The command as printed answers once a real key is in its place."""
    monkeypatch.chdir(tmp_path)
    shown, made = keys.create("team", "")
    file = tmp_path / "keys.json"
    file.write_text(json.dumps([{name: getattr(made, name) for name in ("id", "tenant", "sha256")}]))
    file.chmod(0o600)
    gateway = await start_gateway("--tls-self-signed", "--auth-keys-file", str(file))
    (try_,) = [line for line in gateway.said().splitlines() if line.startswith("try: curl ")]
    _, ca, *header, url = shlex.split(try_.replace("KEY", shown).removeprefix("try: curl "))
    assert json.loads(curl(ca, *header, url))["object"] == "list"


@pytest.mark.parametrize("place", ["flag", "file"])
def test_the_certificate_may_be_kept_elsewhere(tmp_path, place):
    """`--state` names the directory, and does not stand for an API server beside engines by URL."""
    config = tmp_path / "gateway.yaml"
    config.write_text("objects: {endpoints: [http://127.0.0.1:1]}\n" if place == "file" else "")
    flags = ["--endpoint", "http://127.0.0.1:1"] if place == "flag" else []
    state = tmp_path / "state"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "headgate", "gateway", "--state", str(state), "--tls-self-signed"),
            *("--config", str(config), "--check-config", *flags),
        ],
        capture_output=True,
        text=True,
        timeout=60.0,
    )
    assert done.returncode == 0, done.stderr
    assert (state / "tls/gateway.crt").exists()


async def test_plain_requests_are_redirected(start_gateway, tmp_path, monkeypatch, held_port):
    """And browsers are told to use TLS."""
    monkeypatch.chdir(tmp_path)
    port = held_port()
    gateway = await start_gateway(
        "--tls-self-signed", "--tls-redirect-port", str(port), "--tls-hsts-max-age-s", "3600"
    )
    for path in ("/v1/models?a=b", "/"):
        plain = httpx2.get(f"http://127.0.0.1:{port}{path}")
        assert plain.status_code == 308
        assert plain.headers["location"].startswith("https://127.0.0.1:")
        assert plain.headers["location"].endswith(path)
    head = curl(".headgate/tls/ca.crt", "-I", f"{gateway.url}/v1/models")
    assert "strict-transport-security: max-age=3600" in head


@pytest.mark.parametrize(
    ("path", "value", "variable"),
    [
        ("cert_files", "[a.crt]", None),
        ("key_files", "[a.key]", None),
        ("secrets", "[default/a]", None),
        ("cert_files", None, "HEADGATE_TLS_CERT_FILES"),
    ],
)
def test_a_first_try_takes_the_place_of_no_other_certificate(tmp_path, path, value, variable):
    """Wherever that is set."""
    config = tmp_path / "gateway.yaml"
    config.write_text(f"tls: {{{path}: {value}}}\n" if value else "")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "headgate", "gateway", "--state", str(tmp_path), "--tls-self-signed"),
            *("--config", str(config), "--check-config"),
        ],
        capture_output=True,
        text=True,
        timeout=60.0,
        env={**os.environ, variable: "a.crt"} if variable else None,
    )
    assert done.returncode == 2
    told = f"but tls.{path} is set, too, by {variable or f'{config}:1'}: give either one or the other"
    assert told in " ".join(done.stderr.split())
    assert not (tmp_path / "tls").exists()


def test_what_needs_tls_is_refused_without(tmp_path):
    """It would have no effect, and the operator relies on it."""
    given = {"tls_hsts_max_age_s": 60, "tls_redirect_port": 80}
    with pytest.raises(configuration.ConfigurationErrors) as refused:
        configuration.judge(None, given, {})
    assert sorted(each.path for each in refused.value.findings) == [
        "--tls-hsts-max-age-s",
        "--tls-redirect-port",
    ]


async def test_a_worker_comes_back_once_its_certificate_is_mended(start_gateway, tmp_path, eventually):
    """Within seconds, and each failure is told with the time of the next try."""
    issued = certificates.issue("gateway", ["127.0.0.1"], datetime.datetime.now(datetime.UTC))
    cert, key = tmp_path / "a.crt", tmp_path / "a.key"
    cert.write_bytes(issued.cert)
    key.write_bytes(issued.key)
    gateway = await start_gateway("--tls-cert", str(cert), "--tls-key", str(key))
    cert.write_text("broken")
    os.kill(gateway.workers()[0], signal.SIGKILL)
    await eventually(lambda: gateway.said().count("a worker could not be started") >= 3)
    assert "worker 0 is started again in 0.5 s, or when settings change" in gateway.said()
    assert "in 1 s" in gateway.said()
    cert.write_bytes(issued.cert)
    began = time.monotonic()
    await eventually(lambda: gateway.get("/readyz").status_code == 200)
    assert time.monotonic() - began < 20  # a start on a busy machine, and four seconds


async def test_a_certificate_comes_from_a_secret(start_gateway, client, eventually):
    """And is replaced with it; an invalid one is told."""
    now = datetime.datetime.now(datetime.UTC)

    def secret(issued: certificates.Issued) -> dict[str, object]:
        data = {"tls.crt": issued.cert, "tls.key": issued.key}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "api-cert", "namespace": "default"},
            "type": "kubernetes.io/tls",
            "data": {name: base64.b64encode(content).decode() for name, content in data.items()},
        }

    first, second = (certificates.issue("gateway", ["127.0.0.1"], now) for _ in range(2))
    await client.apply_manifest(secret(first), field_manager="test", force=True)
    gateway = await start_gateway("--tls-secret", "default/api-cert")
    port = int(gateway.url.rpartition(":")[2])

    def served() -> str:
        return certificates.fingerprint(ssl.get_server_certificate(("127.0.0.1", port)).encode())

    assert served() == certificates.fingerprint(first.cert)
    await client.apply_manifest(secret(second), field_manager="test", force=True)
    await eventually(lambda: served() == certificates.fingerprint(second.cert))
    await client.apply_manifest(
        secret(certificates.Issued(b"", first.cert, second.key)), field_manager="test", force=True
    )
    await eventually(lambda: "the last valid certificate of default/api-cert stays in use" in gateway.said())
    assert served() == certificates.fingerprint(second.cert)
    assert gateway.metric("headgate_gateway_tls_certificate_valid", source="default/api-cert") == 0


def test_files_that_cannot_be_served_are_told_at_the_start(tmp_path):
    """With their setting, and why."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "headgate", "gateway", "--check-config"),
            *("--tls-cert", str(tmp_path / "none.crt"), "--tls-key", str(tmp_path / "none.key")),
        ],
        capture_output=True,
        text=True,
        timeout=60.0,
    )
    assert done.returncode == 1
    assert "--tls-cert" in done.stderr
    assert "none.crt: No such file or directory" in done.stderr


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--tls-cert", "a.crt"), "1 certificates and 0 keys"),
        (("--tls-key", "a.key"), "there is no TLS"),
        (("--tls-secret", "name"), "a namespace and a name are needed"),
        (("--tls-secret", "a/b", "--tls-ciphers", "NONE"), "OpenSSL rejects"),
        (("--tls-secret", "a/b", "--tls-client-certificates", "required"), "needs the CA"),
        (("--tls-redirect-port", "80"), "there is no TLS"),
        (("--tls-client-certificates", "required"), "--tls-client-certificates: without tls.cert_files"),
        (("--tls-secret", "a/b", "--tls-client-ca-file", "ca.crt"), "set that to required or optional"),
        (("--tls-secret", "a/b", "--auth-mtls", "true"), "clients are not asked for a certificate"),
        (("--auth-mtls", "true"), "clients are not asked for a certificate"),
    ],
)
def test_settings_that_contradict_each_other_are_told(flags, told, monkeypatch):
    with pytest.raises(configuration.ConfigurationErrors) as caught:
        judged(*flags)
    assert told in str(caught.value)


def test_certificates_of_clients_may_be_credentials(tmp_path):
    """If clients are asked for them. While authentication is off, it does not matter."""
    ca = tmp_path / "clients.crt"
    ca.write_bytes(certificates.issue("clients", ["team-a"], datetime.datetime.now(datetime.UTC)).ca)
    asked = ("--tls-client-certificates", "optional", "--tls-client-ca-file", str(ca))
    assert judged("--tls-secret", "a/b", *asked, "--auth-mtls", "true").settings.auth.is_on
    assert not judged("--auth-mode", "off", "--auth-mtls", "true").settings.auth.is_on


def judged(*flags: str) -> configuration.Loaded:
    by_flag = {flag: setting for setting in setting_types.settings().values() for flag in setting.flags}
    pairs = zip(flags[::2], flags[1::2], strict=True)
    return configuration.judge(
        None, {by_flag[flag].key: by_flag[flag].parse(value) for flag, value in pairs}, {}
    )
