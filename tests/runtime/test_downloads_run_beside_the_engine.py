"""What the sidecar downloads comes by `headgate download`, completely or not at all."""

import pytest

BEARER = {"authorization": "Bearer a-token"}


@pytest.fixture
def source(tmp_path):
    """A directory with an adapter."""
    path = tmp_path / "source"
    path.mkdir()
    (path / "adapter_config.json").write_text('{"r": 8}')
    (path / "adapter_model.safetensors").write_bytes(b"x" * 100_000)
    return path


@pytest.fixture
def beside(sidecar, tmp_path):
    """Start a sidecar that has the token, and writes below `weights`."""

    async def run(engine):
        (tmp_path / "token").write_text("a-token")
        (tmp_path / "weights").mkdir(exist_ok=True)
        words = ("--token-file", str(tmp_path / "token"), "--adapters-dir", str(tmp_path / "weights"))
        return await sidecar(engine, *words)

    return run


async def test_a_model_is_downloaded_on_request(beside, source, tmp_path, unused_tcp_port, eventually):
    """The response comes with the complete directory, or at once; the progress file tells the rest."""
    runtime = await beside(unused_tcp_port)
    target = tmp_path / "weights" / "model"
    wanted = {"source": f"file://{source}", "output_dir": str(target), "max_workers": 8}
    response = await runtime.client.post("/v1/download_model", json=wanted, headers=BEARER)
    assert response.status_code == 200, response.text
    assert (target / "adapter_model.safetensors").stat().st_size == 100_000
    shown = (await runtime.client.get("/v1/downloads")).json()["downloads"]
    assert [(each["name"], each["phase"], each["bytes_done"]) for each in shown] == [
        ("model", "Complete", 100_008)
    ]

    later = {**wanted, "output_dir": str(tmp_path / "weights" / "later"), "async_download": True}
    assert (await runtime.client.post("/v1/download_model", json=later, headers=BEARER)).status_code == 200

    async def is_complete():
        found = (await runtime.client.get("/v1/downloads")).json()["downloads"]
        return {each["name"]: each["phase"] for each in found}.get("later") == "Complete"

    await eventually(is_complete)


async def test_the_cause_of_a_failure_is_told(beside, tmp_path, unused_tcp_port):
    """In the words of the download."""
    runtime = await beside(unused_tcp_port)
    wanted = {"source": f"file://{tmp_path}/nothing", "output_dir": str(tmp_path / "weights" / "model")}
    response = await runtime.client.post("/v1/download_model", json=wanted, headers=BEARER)
    assert response.status_code == 502
    assert f"{tmp_path}/nothing" in response.json()["message"]
    assert "Traceback" not in response.json()["message"]
    shown = (await runtime.client.get("/v1/downloads")).json()["downloads"]
    assert [(each["phase"], each["error"]["reason"]) for each in shown] == [("Failed", "NotFound")]


async def test_an_adapter_is_downloaded_and_loaded(engine, beside, source, tmp_path):
    """Into the directory that is named; the engine loads it from there."""
    served = await engine()
    runtime = await beside(served)
    target = tmp_path / "weights" / "adapters" / "sql"
    wanted = {"lora_name": "sql", "source": f"file://{source}", "output_dir": str(target)}
    response = await runtime.client.post("/v1/load_lora_adapter", json=wanted, headers=BEARER)
    assert response.status_code == 200, response.text
    cards = (await served.client.get("/v1/models")).json()["data"]
    assert {card["id"]: card["root"] for card in cards if card["parent"]} == {"sql": str(target)}
    assert (target / "adapter_config.json").read_text() == '{"r": 8}'
