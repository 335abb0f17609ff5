"""Models on an API server, as a test changes and watches them."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from dataclasses import dataclass
from typing import Any

import httpx2
import yaml

LIMIT_S = 200.0
POLL_S = 0.2
MODEL_UID = "registry.volcano.sh/model-uid"
PATHS = {
    "models": "apis/registry.volcano.sh/v1alpha1",
    "autoscalingpolicies": "apis/registry.volcano.sh/v1alpha1",
    "autoscalingpolicybindings": "apis/registry.volcano.sh/v1alpha1",
    "modelservers": "apis/networking.volcano.sh/v1alpha1",
    "modelroutes": "apis/networking.volcano.sh/v1alpha1",
    "deployments": "apis/apps/v1",
    "leaderworkersets": "apis/leaderworkerset.x-k8s.io/v1",
    "pods": "api/v1",
    "secrets": "api/v1",
}
CHILDREN = tuple(kind for kind in PATHS if kind not in ("models", "pods"))
ROLLED_OUT = ("deployments", "leaderworkersets")


def backend(name: str = "b", replicas: int = 1, **fields: Any) -> dict[str, Any]:
    """A backend of one simulated vLLM, whose weights are there."""
    return {
        "name": name,
        "type": "vLLM",
        "modelURI": "pvc://weights",
        "minReplicas": replicas,
        "maxReplicas": max(replicas, 1),
        "workers": [{"type": "server"}],
        **fields,
    }


@dataclass
class Models:
    """Models in one namespace."""

    http: httpx2.AsyncClient
    namespace: str = "default"

    async def put(self, *backends: dict[str, Any], name: str = "m", public: str = "", **spec: Any) -> None:
        """Create the Model, or replace its spec; `public` is what requests call it by."""
        if public:
            spec["name"] = public
        manifest: dict[str, Any] = {
            "apiVersion": "registry.volcano.sh/v1alpha1",
            "kind": "Model",
            "metadata": {"name": name},
            "spec": {"backends": copy.deepcopy(list(backends)), **spec},
        }
        response = await self._call("POST", self._path("models"), json=manifest)
        while response.status_code == 409:
            stored = await self.get("models", name)
            manifest["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
            response = await self._call("PUT", self._path("models", name), json=manifest)
        assert response.status_code in (200, 201), response.text

    async def delete(self, kind: str, name: str) -> None:
        """Also if it is gone already, as after an answer that was lost."""
        response = await self._call("DELETE", self._path(kind, name))
        assert response.status_code in (200, 202, 404), response.text

    async def get(self, kind: str, name: str) -> dict[str, Any]:
        response = await self._call("GET", self._path(kind, name))
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def all(self) -> list[dict[str, Any]]:
        """Every Model of the namespace."""
        response = await self._call("GET", self._path("models"))
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["items"]
        return found

    async def children(self, uid: str) -> dict[str, Any]:
        """What its objects ask for, by kind and name, without what differs from one Model to the next."""
        found = {}
        for kind in CHILDREN:
            for each in await self.of(uid, kind):
                meta = each["metadata"]
                kept = {"labels": meta["labels"], "annotations": meta.get("annotations", {})}
                kept["annotations"].pop("deployment.kubernetes.io/revision", None)
                data = sorted(each.get("data", {}))
                text = json.dumps([kept, each.get("spec"), data], sort_keys=True)
                found[f"{kind} {meta['name']}"] = json.loads(text.replace(uid, "UID"))
        return found

    async def of(self, uid: str, kind: str) -> list[dict[str, Any]]:
        """Its objects of one kind."""
        selector = {"labelSelector": f"{MODEL_UID}={uid}"}
        response = await self._call("GET", self._path(kind), params=selector)
        assert response.status_code == 200, response.text
        found: list[dict[str, Any]] = response.json()["items"]
        return found

    async def settled(self, name: str = "m", limit_s: float = LIMIT_S) -> dict[str, Any]:
        """Returns the Model once it is as it was written last, with nothing of before left."""
        began, told = time.monotonic(), "not looked at"
        while told:
            assert time.monotonic() - began < limit_s, f"Model {name} is not settled: {told}"
            await asyncio.sleep(POLL_S)
            model = await self.get("models", name)
            told = await self._unsettled(model)
        return model

    async def _unsettled(self, model: dict[str, Any]) -> str:
        """What is still on its way; empty if nothing is."""
        status = model.get("status", {})
        if status.get("observedGeneration") != model["metadata"]["generation"]:
            return f"generation {model['metadata']['generation']}, and status {status}"
        [active] = [each for each in status["conditions"] if each["type"] == "Active"]
        if active["status"] != "True" or ";" in active["message"]:
            return f"{active}"
        uid, pods = model["metadata"]["uid"], 0
        for kind in ROLLED_OUT:
            for each in await self.of(uid, kind):
                wanted = each["spec"].get("replicas", 1)
                now = each.get("status", {})
                counts = [now.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")]
                if counts != [wanted] * 3 or now.get("observedGeneration", 0) < _least(each):
                    return f"{kind} {each['metadata']['name']} wants {wanted}: {now}"
                size = each["spec"].get("leaderWorkerTemplate", {}).get("size", 1)
                pods += wanted * size
        present = await self.of(uid, "pods")
        leaving = [each["metadata"]["name"] for each in present if "deletionTimestamp" in each["metadata"]]
        if leaving or len(present) != pods:
            return f"{len(present)} Pods in place of {pods}; {leaving} are leaving"
        return ""

    async def gone(self, uid: str, limit_s: float = LIMIT_S) -> None:
        """Returns once nothing of a deleted Model is left."""
        began = time.monotonic()
        while left := [
            f"{kind} {each['metadata']['name']}" for kind in PATHS for each in await self.of(uid, kind)
        ]:
            assert time.monotonic() - began < limit_s, f"left: {left}"
            await asyncio.sleep(POLL_S)

    async def _call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Tries again while the API server is down."""
        began = time.monotonic()
        while True:
            try:
                response = await self.http.request(method, path, **options)
                if response.status_code not in (429, 500, 503):
                    return response
            except httpx2.TransportError:
                pass
            assert time.monotonic() - began < LIMIT_S, f"the API server does not answer {method} {path}"
            await asyncio.sleep(POLL_S)

    def _path(self, kind: str, name: str = "") -> str:
        return f"/{PATHS[kind]}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")


def _least(workload: dict[str, Any]) -> int:
    """The generation that its status should be of; LeaderWorkerSets do not say it."""
    says_it = "leaderWorkerTemplate" not in workload["spec"]
    return int(workload["metadata"]["generation"]) if says_it else 0


def client_of(kubeconfig: str) -> httpx2.AsyncClient:
    """For the API server of a kubeconfig of the embedded one."""
    import base64
    import ssl

    config = yaml.safe_load(kubeconfig)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trusted = ssl.create_default_context(
        cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
    )
    return httpx2.AsyncClient(
        base_url=cluster["server"],
        headers={"Authorization": f"Bearer {user['token']}"},
        verify=trusted,
        trust_env=False,
        timeout=180,
    )
