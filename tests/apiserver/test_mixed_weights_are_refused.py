"""InferenceModels with weights for some targets and not for others: refused by what a request itself says."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

MODELS = "/apis/inference.networking.x-k8s.io/v1alpha1/namespaces/default/inferencemodels"
JSON = {"content-type": "application/json-patch+json"}
MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
MANAGER = {"fieldManager": "me", "force": "true"}

TOLD = "Weights should be set for all models, or none of the models."
MIXED = [{"name": "a", "weight": 3}, {"name": "b"}]


def model(*targets: Any, **spec: Any) -> dict[str, Any]:
    """Targets are names without a weight, or all of a target."""
    listed = [{"name": each} if isinstance(each, str) else each for each in targets]
    return {
        "apiVersion": "inference.networking.x-k8s.io/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": "m"},
        "spec": {"modelName": "chat", "poolRef": {"name": "pool"}, "targetModels": listed, **spec},
    }


def causes(answer: httpx2.Response) -> list[tuple[str, str]]:
    assert answer.status_code == 422, answer.text
    return [(cause["field"], cause["message"]) for cause in answer.json()["details"]["causes"]]


def weights(answer: httpx2.Response) -> list[int]:
    assert answer.status_code < 300, answer.text
    return [target["weight"] for target in answer.json()["spec"]["targetModels"]]


REFUSED = [("spec.targetModels", f"Invalid value: {TOLD}")]


async def test_a19_mixed_weights_are_refused_in_every_kind_of_write(http: httpx2.AsyncClient) -> None:
    """Create, server-side apply of a new object and of one that is there, update, merge patch."""
    mixed = model(*MIXED)
    assert causes(await http.post(MODELS, json=mixed)) == REFUSED
    assert causes(await http.patch(f"{MODELS}/m", json=mixed, headers=APPLY, params=MANAGER)) == REFUSED
    created = await http.post(MODELS, json=model("a", "b"))
    assert weights(created) == [1, 1]
    patch = {"spec": {"targetModels": [{"name": "a", "weight": 1}, {"name": "b", "weight": None}]}}
    assert causes(await http.patch(f"{MODELS}/m", json=patch, headers=MERGE)) == REFUSED
    assert causes(await http.patch(f"{MODELS}/m", json=mixed, headers=APPLY, params=MANAGER)) == REFUSED
    update = created.json()
    update["spec"]["targetModels"] = MIXED
    assert causes(await http.put(f"{MODELS}/m", json=update)) == REFUSED
    assert weights(await http.get(f"{MODELS}/m")) == [1, 1]


async def test_a19_it_is_told_with_all_other_errors(http: httpx2.AsyncClient) -> None:
    """Those of the schema stand beside it."""
    told = causes(await http.post(MODELS, json=model(*MIXED, criticality="High")))
    assert [field for field, _ in told if field.startswith("spec")] == [
        "spec.criticality",
        "spec.targetModels",
    ]


async def test_a19_weights_that_the_server_filled_in_do_not_count(http: httpx2.AsyncClient) -> None:
    """A list without weights may grow by one without a weight, though the stored ones have theirs by now."""
    for apply in (
        {"json": model("a", "b"), "headers": APPLY, "params": MANAGER},
        {"json": model("a", "b", "c"), "headers": APPLY, "params": MANAGER},
        {"json": {"spec": {"targetModels": [{"name": each} for each in "abcd"]}}, "headers": MERGE},
        {"json": {"spec": {"criticality": "Critical"}}, "headers": MERGE},
    ):
        last = await http.patch(f"{MODELS}/m", **apply)  # type: ignore[arg-type]
        assert set(weights(last)) == {1}
    assert weights(last) == [1, 1, 1, 1]


async def test_a_json_patch_that_adds_one_without_a_weight_is_warned(http: httpx2.AsyncClient) -> None:
    """Nobody knows whether its author meant the default: the others' may be the server's, too."""
    await http.post(MODELS, json=model("a"))
    add = [{"op": "add", "path": "/spec/targetModels/-", "value": {"name": "b"}}]
    patched = await http.patch(f"{MODELS}/m", json=add, headers=JSON)
    assert weights(patched) == [1, 1]
    assert "spec.targetModels[1].weight: is not set and counts 1" in str(patched.headers.get_list("warning"))


@pytest.mark.parametrize("weight", [-1, 1_000_001])
async def test_a20_weights_beyond_their_bounds_are_refused(http: httpx2.AsyncClient, weight: int) -> None:
    """0 and 1,000,000 are the last that are taken."""
    ((field, _),) = causes(await http.post(MODELS, json=model({"name": "a", "weight": weight})))
    assert field == "spec.targetModels[0].weight"
    bounds = model({"name": "a", "weight": 0}, {"name": "b", "weight": 1_000_000})
    assert weights(await http.post(MODELS, json=bounds)) == [0, 1_000_000]
