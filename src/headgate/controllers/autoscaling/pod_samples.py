"""Reads the metrics of Pods."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from datetime import datetime

from headgate import api
from headgate.autoscaling import PodSample
from headgate.engine_client import Client, FetchError
from headgate.engines.page import Page, PageTooLargeError

MAX_BYTES = 4 << 20
TIMEOUT_S = 3.0


class PodReader:
    """Reads gauges of Pods, each on a connection of its own."""

    async def read(
        self, pods: Sequence[api.Pod], port: int, uri: str, names: Sequence[str], deadline_s: float
    ) -> list[PodSample]:
        """One sample of each Pod; a value that could not be read is not in it."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(pod, port, uri, names, deadline_s)) for pod in pods]
        return [task.result() for task in tasks]

    async def _one(
        self, pod: api.Pod, port: int, uri: str, names: Sequence[str], deadline_s: float
    ) -> PodSample:
        created = datetime.fromisoformat(pod.metadata.creation_timestamp).timestamp()
        values: dict[str, float] = {}
        if pod.ready and pod.status.pod_ip:
            client = Client(pod.status.pod_ip, port, None, "")
            try:
                response = await client.get(uri, "text/plain", MAX_BYTES, min(TIMEOUT_S, deadline_s))
                page = Page(response.body)
                for name in names:
                    found = [each.value for each in page.samples(name) if math.isfinite(each.value)]
                    if response.status == 200 and found:
                        values[name] = sum(found)
            except (FetchError, PageTooLargeError):
                pass
            finally:
                client.close()
        return PodSample(pod.metadata.name, pod.ready, values, created)
