import pytest

from headgate.simulator.model import Engine
from headgate.simulator.server import bodies


async def test_a_broken_model_ends_the_server(serve, monkeypatch):
    """If the step loop fails, the server does not live on without answers: its owner gets the error."""

    def broken(engine):
        raise ArithmeticError("no step")

    monkeypatch.setattr(Engine, "finish_step", broken)
    with pytest.RaisesGroup(pytest.RaisesExc(ArithmeticError, match="no step"), flatten_subgroups=True):
        async with serve() as server:
            await server.client.post("/v1/completions", json={"model": "tiny", "prompt": "x"})


async def test_a_broken_handler_is_a_500_with_an_error_object(serve, monkeypatch, caplog):
    """The client gets OpenAI's shape, the log gets the traceback, and the server goes on."""

    def broken(body):
        raise ArithmeticError("no body")

    monkeypatch.setattr(bodies, "read_completion", broken)
    async with serve() as server:
        response = await server.client.post("/v1/completions", json={"model": "tiny", "prompt": "x"})
        assert (await server.client.get("/health")).status_code == 200
    assert (response.status_code, response.json()["error"]["type"]) == (500, "InternalServerError")
    assert "no body" in caplog.text
