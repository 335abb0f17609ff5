"""Anyone in the network can reach the sidecar; only the holder of the token can change something."""

import asyncio
import os

import pytest

TOKEN = "a-token"
WRITING = [
    ("PUT", "/v1/adapters"),
    ("POST", "/v1/load_lora_adapter"),
    ("POST", "/v1/unload_lora_adapter"),
    ("POST", "/v1/download_model"),
]


def bearer(token):
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
async def runtime(sidecar, tmp_path, unused_tcp_port):
    """The sidecar of an engine that is not there."""
    (tmp_path / "token").write_text(TOKEN)
    words = ("--token-file", str(tmp_path / "token"), "--adapters-dir", str(tmp_path / "weights"))
    return await sidecar(unused_tcp_port, *words)


async def test_calls_that_change_something_need_the_token(runtime):
    """Whatever else is wrong with them, they are not read before."""
    for method, path in WRITING:
        for headers in (
            {},
            bearer("other"),
            {"authorization": TOKEN},
            {"authorization": "Bearer"},
        ):
            response = await runtime.client.request(method, path, content=b"{", headers=headers)
            assert response.status_code == 401, (path, headers)
            assert response.headers["www-authenticate"] == "Bearer"
        twice = [("authorization", "Bearer x"), ("authorization", f"Bearer {TOKEN}")]
        assert (await runtime.client.request(method, path, headers=twice)).status_code == 401
        given = await runtime.client.request(method, path, content=b"{", headers=bearer(TOKEN))
        assert given.status_code == 400


async def test_the_token_may_change(runtime, tmp_path):
    """A Secret is mounted as a link to a new directory; the sidecar is not restarted."""
    (tmp_path / "new").write_text("another\n")
    os.replace(tmp_path / "new", tmp_path / "token")
    put = {"adapters": []}
    old = await runtime.client.put("/v1/adapters", json=put, headers=bearer(TOKEN))
    new = await runtime.client.put("/v1/adapters", json=put, headers=bearer("another"))
    assert (old.status_code, new.status_code) == (401, 200)


@pytest.mark.parametrize("content", [None, "", " \n", "x" * 5000])
async def test_without_a_token_nothing_can_be_changed(runtime, tmp_path, content):
    """The message says what to do. An empty token never equals an empty header."""
    (tmp_path / "token").unlink()
    if content is not None:
        (tmp_path / "token").write_text(content)
    for headers in (bearer(TOKEN), {"authorization": "Bearer"}, bearer("x" * 5000)):
        response = await runtime.client.put("/v1/adapters", json={"adapters": []}, headers=headers)
        assert response.status_code == 403
        assert "mount its Secret there, or name another file with --token-file" in response.json()["message"]


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/v1/adapters", {"adapters": [{"name": "", "source": "/a"}]}, "$.adapters[0].name"),
        ("/v1/adapters", {"adapters": [{"name": "a b", "source": "/a"}]}, "$.adapters[0].name"),
        ("/v1/adapters", {"adapters": [{"name": "a", "source": "/a\n"}]}, "$.adapters[0].source"),
        ("/v1/adapters", {"adapters": [{"name": "a", "source": "x" * 3000}]}, "$.adapters[0].source"),
        ("/v1/adapters", {"adapters": [{"name": f"a{i}", "source": "/a"} for i in range(1001)]}, "1000"),
        ("/v1/adapters", {"adapters": [{"name": "a", "source": "/a"}] * 2}, "adapters[1].name: 'a' is there"),
        ("/v1/load_lora_adapter", {"lora_name": "a"}, "source"),
        ("/v1/load_lora_adapter", {"lora_name": "a", "source": "/a", "output_dir": "/etc"}, "'/etc' is not"),
        ("/v1/download_model", {"source": "hf://a/b", "output_dir": "weights/x"}, "is not below"),
        ("/v1/download_model", {"source": "hf://a/b", "output_dir": "{root}"}, "is not below"),
        ("/v1/download_model", {"source": "hf://a/b", "output_dir": "{root}/../x"}, "is not below"),
        ("/v1/download_model", {"source": "hf://a/b", "output_dir": "{root}/link/x"}, "is not below"),
        ("/v1/download_model", {"source": "hf://a/b", "output_dir": "{root}/a\x00b"}, "is not below"),
    ],
)  # fmt: skip
async def test_wrong_content_names_the_field(runtime, tmp_path, path, body, told):
    """Nothing is downloaded outside --adapters-dir, be it through links."""
    root = tmp_path / "weights"
    root.mkdir()
    (root / "link").symlink_to("/tmp")
    if "output_dir" in body:
        body = {**body, "output_dir": body["output_dir"].replace("{root}", str(root))}
    method = "PUT" if path == "/v1/adapters" else "POST"
    response = await runtime.client.request(method, path, json=body, headers=bearer(TOKEN))
    assert response.status_code == 400
    assert told in response.json()["message"]
    assert (await runtime.client.get("/v1/adapters")).json() == {"adapters": []}


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"\xff", b'{"adapters": ' + b"[" * 1000, b"", b"[]", b"null"]
)
async def test_bodies_that_cannot_be_read_are_refused(runtime, body):
    """In time linear in their size."""
    response = await runtime.client.put("/v1/adapters", content=body, headers=bearer(TOKEN))
    assert response.status_code == 400


async def test_long_bodies_are_refused(runtime):
    """With a length, and without."""

    async def pieces():
        for _ in range(40):
            yield b" " * 65536

    for content in (b" " * 2_000_000, pieces()):
        response = await runtime.client.put("/v1/adapters", content=content, headers=bearer(TOKEN))
        assert response.status_code == 413


async def test_unknown_paths_name_the_known_ones(runtime):
    """And wrong methods the right ones."""
    unknown = await runtime.client.get("/v1/x")
    assert (unknown.status_code, "/drain" in unknown.json()["message"]) == (404, True)
    wrong = await runtime.client.delete("/v1/adapters")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, PUT")


async def test_many_hooks_leave_capacity_for_others(sidecar, tmp_path):
    """Someone who opens hundreds of them does not lock out the metrics page."""

    async def keep_silent(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
    async with server:
        beside = await sidecar(server.sockets[0].getsockname()[1])
        opened = []
        for _ in range(200):
            reader, writer = await asyncio.open_connection("127.0.0.1", beside.port)
            writer.write(b"GET /drain HTTP/1.1\r\nhost: x\r\n\r\n")
            opened.append((reader, writer))
        async with asyncio.timeout(60):
            while (await beside.client.get("/v1/downloads")).status_code != 200:
                await asyncio.sleep(0.05)
        page = (await beside.client.get("/metrics")).text
        waiting = next(line for line in page.split("\n") if line.startswith("headgate_runtime_drain_waiting"))
        assert 0 < int(waiting.split()[1]) <= 8
        for _, writer in opened:
            writer.close()
