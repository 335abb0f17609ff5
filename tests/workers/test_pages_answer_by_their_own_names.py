"""Admin and metrics ports answer by names of their own, so that no website rebinds its name to them."""

import asyncio
import socket
import urllib.parse

import pytest

HOST_PORTS = "", ":1", ":8081"


@pytest.fixture
async def ask(start_gateway, tmp_path):
    """A running gateway with a name, asked with raw heads: gives status and body."""
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "clients: {allowed_hosts: [gateway.example.com, '*.ops.example.com']}\nlogging: {access_log: off}\n"
    )
    gateway = await start_gateway("--config", str(file))

    async def ask(
        path: str = "/debug/config", *headers: str, method: str = "GET", url: str = "", http: str = "1.1"
    ) -> tuple[int, str]:
        where = urllib.parse.urlsplit(url or gateway.admin_url)
        head = [f"{method} {path} HTTP/{http}", *headers, "connection: close", "content-length: 0", "", ""]

        def exchange() -> bytes:
            with socket.create_connection((where.hostname, where.port), timeout=30) as sock:
                sock.sendall("\r\n".join(head).encode())
                received = b""
                while data := sock.recv(65536):
                    received += data
                return received

        answer = (await asyncio.to_thread(exchange)).decode()
        return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]

    ask.metrics_url = gateway.metrics_url
    ask.metric = gateway.metric
    return ask


async def test_own_names_are_served(ask):
    """Loopback in every form, the address that was connected to, and the setting, at any port."""
    names = "localhost", "LocalHost", "a.localhost", "127.0.0.1", "127.8.9.1", "[::1]", "[::ffff:127.0.0.1]"
    for name in (*names, "gateway.example.com", "a.ops.example.com"):
        for port in HOST_PORTS:
            status, _ = await ask("/debug/config", f"host: {name}{port}")
            assert status == 200, name + port


async def test_other_names_are_not(ask):
    """421 says which name was sent, and how to have it served; nothing of the page is in the answer."""
    rebound = "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "example.com", "10.1.2.3"
    for name in (*rebound, "[::2]", "ops.example.com", "a b", "xn--localhost", "127.0.0.1@evil", ""):
        for path, url in (("/debug/config", ""), ("/debug/requests", ""), ("/metrics", ask.metrics_url)):
            status, body = await ask(path, f"host: {name}:8081" if name else "host:", url=url)
            assert status in (400, 421), (name, path)
            assert "models" not in body
            if status == 421:
                assert "allowed_hosts" in body


async def test_two_hosts_or_none_are_not(ask):
    """Whose name it is must not depend on which of two somebody reads."""
    assert (await ask("/debug/config", "host: localhost", "host: evil.example"))[0] in (400, 421)
    assert (await ask("/debug/config", http="1.0"))[0] == 421


async def test_host_of_a_url_counts(ask):
    """A target may be a URL, whose host counts instead of the header's (RFC 9112, 3.2.2)."""
    for url, path in (("", "/debug/config"), (ask.metrics_url, "/metrics")):
        for scheme in ("http", "HTTPS", "ftp"):
            for evil in ("evil.example", "evil.example:8081", "localhost@evil.example"):
                status, body = await ask(f"{scheme}://{evil}{path}", "host: localhost", url=url)
                assert (status, "evil.example" in body) == (421, True), evil
            assert (await ask(f"{scheme}://localhost{path}", "host: evil.example", url=url))[0] == 200
        assert (await ask(f"http://localhost:1{path}", http="1.0", url=url))[0] == 200


async def test_what_is_posted_comes_from_no_other_site(ask):
    """A browser says which page sends: one of another site may not even where it calls the host rightly."""
    path = "/debug/explain/v1/completions"
    for host, origin, expected in (
        ("evil.example", None, 421),
        ("localhost", "http://evil.example", 403),
        ("localhost", "null", 403),
        ("localhost", "http://localhost:8081", 200),
        ("localhost", None, 200),
    ):
        headers = [f"host: {host}", *([f"origin: {origin}"] if origin else [])]
        assert (await ask(path, *headers, method="POST"))[0] == expected, (host, origin)
    for reason, count in (("unknown_host", 1), ("other_origin", 2)):
        name = "headgate_gateway_page_requests_rejected_total"
        assert await asyncio.to_thread(ask.metric, name, page="admin", reason=reason) == count


async def test_probes_are_answered_by_any_name(ask):
    """Load balancers and kubelets know an address that may be another one here; the answer tells nothing."""
    for path in ("/healthz", "/readyz"):
        assert (await ask(path, "host: 10.1.2.3:8081"))[0] == 200
