"""`POST /debug/explain` of a picker: where a request would go, and why; nothing is sent or booked."""

import json

import httpx2
from picker_world import OBJECTIVES, completion, model, pool
from reference_fixtures import rewrite

from headgate.picker import pages


def client(world, host="127.0.0.1"):
    page = pages.pages(world.shell, world.registry)
    transport = httpx2.ASGITransport(app=page, client=(host, 5))
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")


async def explained(world, body=None, path="", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with client(world) as http:
        content = completion() if body is None else body
        response = await http.post(f"/debug/explain{path}", content=content, headers=named)
    assert response.status_code == 200, response.text
    return response.json()


async def test_the_endpoint_that_would_be_picked(picker):
    """With the reasons, the priority, and the body; and it is the one that is."""
    world = (await picker()).apply(pool(), rewrite("r", 1, "my-model", target=None), *OBJECTIVES)
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    found = await explained(world, path="/v1/completions", x_gateway_inference_objective="my-model")
    (target,) = found["targets"]
    assert (target["pool"], target["priority"]) == ("InferencePool default/pool", 2)
    assert json.loads(target["body"])["model"] == target["upstream_model"] == "target"
    picked = [each for each in target["endpoints"] if each["picked"]]
    assert [each["address"] for each in picked] == ["192.168.1.2:8000"]
    assert all(each["why"] for each in target["endpoints"])
    assert world.in_flight() == {1: 0, 2: 0, 3: 0}
    assert (await world.ask()).told.address == "192.168.1.2:8000"


async def test_the_header_that_renames_the_model(world):
    """As in requests."""
    found = await explained(world, x_llm_d_model_name_rewrite="other", path="/v1/completions")
    assert found["targets"][0]["upstream_model"] == "other"


async def test_a_request_that_would_be_rejected(picker):
    """With the response that the client would get."""
    world = (await picker()).apply(pool(), model("known"))
    answer = (await explained(world, path="/v1/completions"))["answer"]
    assert answer["status"] == 404
    assert answer["body"].startswith("inference error: NotFound - ")
    assert answer["headers"]["content-type"] == "text/plain"
    answer = (await explained((await picker()).apply(), b"raw", "/anything"))["answer"]
    assert answer["status"] == 503


async def test_bodies_that_are_not_read(world):
    """They go to the endpoint with the least load."""
    world.see((3, 0.2), (0, 0.1), (10, 0.2))
    found = await explained(world, b"raw", "/anything")
    assert [each["address"] for each in found["targets"][0]["endpoints"] if each["picked"]] == [
        "192.168.1.2:8000"
    ]


async def test_only_on_the_machine_of_the_picker(world):
    """Others get 403; bodies have the limit that they have in requests."""
    async with client(world, "10.0.0.7") as http:
        assert (await http.post("/debug/explain", content=completion())).status_code == 403
    async with client(world) as http:
        long = b"x" * (world.shell.choices.max_body_bytes + 1)
        assert (await http.post("/debug/explain", content=long)).status_code == 413
