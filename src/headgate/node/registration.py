"""The node's own object in the API: that it is there, that it is well, and where its logs are."""

import asyncio
import logging
import platform
import time
from importlib import metadata

from headgate import api, cluster
from headgate.api import marks
from headgate.kubeschema import timestamps
from headgate.node.config import Identity

log = logging.getLogger(__name__)


class Registration:
    """Keeps the Node object; `run` beats until cancelled."""

    def __init__(self, client: cluster.Client, identity: Identity, log_url: str, heartbeat_s: float) -> None:
        self._client = client
        self._identity = identity
        self._log_url = log_url
        self._heartbeat_s = heartbeat_s
        self._ready_since = timestamps.seconds(time.time())

    async def register(self) -> None:
        """Create or take over the Node object and say Ready."""
        name = self._identity.name
        annotations = {marks.LOG_ENDPOINT: self._log_url}
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": platform.system().lower()}
        try:
            meta = api.ObjectMeta(name=name, annotations=annotations, labels=labels)
            await self._client.create(api.Node(metadata=meta))
        except cluster.AlreadyExists:
            await self._client.patch(api.Node, name, None, {"metadata": {"annotations": annotations}})
        await self._beat(ready=True)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            try:
                await self._beat(ready=True)
            except cluster.NotFound:
                log.warning("the Node object %s was deleted; it is made again", self._identity.name)
                await self._register_again()
            except cluster.ApiError as error:
                log.warning("the node's heartbeat was not written: %s", error)

    async def leave(self) -> None:
        """Say that the node stops. The object stays, and so do its Pods."""
        try:
            await self._beat(ready=False)
        except cluster.ApiError as error:
            log.info("the node could not say that it stops: %s", error)

    async def _register_again(self) -> None:
        try:
            await self.register()
        except cluster.ApiError as error:
            log.warning("the Node object was not made: %s", error)

    async def _beat(self, *, ready: bool) -> None:
        now = timestamps.seconds(time.time())
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "reason": "NodeReady" if ready else "NodeStopped",
            "message": "the node runs Pods as local processes" if ready else "the node was stopped",
            "lastHeartbeatTime": now,
            "lastTransitionTime": self._ready_since if ready else now,
        }
        status = {
            "conditions": [condition],
            "addresses": [
                {"type": "InternalIP", "address": self._identity.host_ip},
                {"type": "Hostname", "address": self._identity.name},
            ],
            "nodeInfo": {
                "kubeletVersion": f"headgate-{metadata.version('headgate')}",
                "operatingSystem": platform.system().lower(),
                "architecture": platform.machine(),
                "kernelVersion": platform.release(),
                "osImage": platform.platform(),
                "containerRuntimeVersion": "process://",
            },
        }
        await self._client.patch_status(api.Node, self._identity.name, None, status)
