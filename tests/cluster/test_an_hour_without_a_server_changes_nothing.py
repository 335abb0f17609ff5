"""An API server is away for an hour: the copy stays, attempts are few, and its return is noticed soon."""

import asyncio
import json
import random

import httpx2

from headgate import api
from headgate.cluster import Client, Informer
from headgate.cluster.connection import Connection

HOUR_S = 3600.0


class Server(httpx2.AsyncBaseTransport):
    """Has one ConfigMap, and forgets its versions while it is away."""

    def __init__(self):
        self.attempts = 0
        self.listed = 0
        self.is_there = True
        self._left = asyncio.Event()

    def leave(self):
        self.is_there = False
        self._left.set()

    async def handle_async_request(self, request):
        self.attempts += 1
        if not self.is_there:
            raise httpx2.ConnectError("connection refused", request=request)
        if "watch" in request.url.params:
            if request.url.params["resourceVersion"] == str(self.listed):
                return httpx2.Response(200, stream=Content(self._watch()))
            gone = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired"}
            return httpx2.Response(410, stream=Content(_once(gone)))
        self.listed += 1
        metadata = {"name": "one", "namespace": "default", "uid": "u", "resourceVersion": str(self.listed)}
        item = {"metadata": metadata, "data": {"listed": str(self.listed)}}
        page = {"metadata": {"resourceVersion": str(self.listed)}, "items": [item]}
        return httpx2.Response(200, stream=Content(_once(page)))

    async def _watch(self):
        self._left.clear()
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": f"{self.listed}"}}}
        yield json.dumps(bookmark).encode() + b"\n"
        await self._left.wait()
        self.listed += 1  # a version that nobody has seen
        raise httpx2.ReadError("connection reset")


class Content(httpx2.AsyncByteStream):
    def __init__(self, parts):
        self._parts = parts

    def __aiter__(self):
        return self._parts


async def _once(body):
    yield json.dumps(body).encode()


def test_the_copy_survives_and_is_followed_again_within_half_a_minute(in_virtual_time):
    async def story(loop):
        server = Server()
        http = httpx2.AsyncClient(base_url="http://server", transport=server)
        client = Client(Connection("http://server", "", "default", http, http))
        informer = Informer(client, api.ConfigMap, rng=random.Random(1))
        following = asyncio.create_task(informer.run())
        await asyncio.sleep(60)
        first = informer.get("default", "one").data
        before = server.attempts
        server.leave()
        await asyncio.sleep(HOUR_S)
        assert informer.get("default", "one").data == first
        assert informer.synced.is_set()
        assert HOUR_S / 30 <= server.attempts - before <= HOUR_S / 15 + 15
        server.is_there = True
        await asyncio.sleep(31)
        assert informer.get("default", "one").data == {"listed": "3"}
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await client.aclose()

    in_virtual_time(story)
