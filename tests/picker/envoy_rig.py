"""Envoy, a picker, and engines that respond to what it sends."""

import asyncio
import contextlib

import envoy_process
import httpx2
from picker_world import OBJECTIVES, completion, pod, pool

from headgate import serving

ENVOY = envoy_process.find()


class Engine:
    """An engine on a port of its own. `serve` responds to requests; by default it sends the body back."""

    def __init__(self, name, port, arrived):
        self.name, self.port, self.arrived = name, port, arrived
        self.requests = []
        self.left = asyncio.Event()
        """Set when a client has gone."""
        self.serve = self.echo

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            await self.converse(scope, receive, send)
            return
        body = bytearray()
        is_complete = False
        while not is_complete:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            body += message.get("body", b"")
            is_complete = not message.get("more_body")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append((scope["path"], headers, bytes(body)))
        self.arrived.append(self.requests[-1])
        self.receive = receive
        await self.serve(bytes(body), send)

    async def converse(self, scope, receive, send):
        """Sends what comes in a WebSocket back, until the client closes it."""
        self.arrived.append((scope["path"], scope["query_string"].decode(), self.name))
        await receive()
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})

    async def head(self, send, status=200, kind=b"application/json", **more):
        headers = [(b"content-type", kind), (b"x-engine", self.name.encode())]
        headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
        await send({"type": "http.response.start", "status": status, "headers": headers})

    async def part(self, send, body, *, more):
        await send({"type": "http.response.body", "body": body, "more_body": more})

    async def echo(self, body, send):
        await self.head(send, kind=b"application/octet-stream", content_length=str(len(body)))
        await self.part(send, body, more=False)

    async def wait_until_left(self):
        """Until the client goes."""
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.left.set()


class Rig:
    """Envoy, a picker and engines."""

    def __init__(self, world, engines, pods, url):
        self.world, self.engines, self.pods, self.url = world, engines, pods, url
        self.http = httpx2.AsyncClient(base_url=url, timeout=60)

    async def ask(self, body=None, path="/v1/completions", **headers):
        content = completion() if body is None else body
        named = {"content-type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return await self.http.post(path, content=content, headers=named)

    def apply(self, *objects, pods=None):
        """Other objects; Pods are those of the engines."""
        self.world.apply(pool(), *OBJECTIVES, *objects, *(self.pods if pods is None else pods), pods=0)
        return self

    def serve(self, *parts, kind=b"application/json"):
        """All engines respond with these parts."""

        def serving_of(engine):
            async def serve(body, send):
                await engine.head(send, kind=kind)
                for place, part in enumerate(parts):
                    await engine.part(send, part, more=place < len(parts) - 1)

            return serve

        for engine in self.engines:
            engine.serve = serving_of(engine)

    @property
    def last(self):
        """The request that came last: path, headers and body."""
        return self.engines[0].arrived[-1]

    @property
    def in_flight(self):
        return sum(load.requests for load in self.world.loads)

    async def settled(self):
        """Until nothing is in flight, or held."""
        async with asyncio.timeout(10):
            while self.in_flight or self.world.shell.streams or self.world.shell.bodies.held:
                await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def making(picker, directory, unused_port):
    """Makes rigs: `made` has arguments of the configuration; `policy` makes the cluster of the pool."""
    async with contextlib.AsyncExitStack() as stack:

        async def make(*objects, engines=2, policy=None, choices=None, down=(), sections=None, **made):
            world = await picker(choices=choices, **(sections or {}))
            started, pods, arrived = [], [], []
            for number in range(1, engines + 1):
                port = unused_port()
                engine = Engine(f"pod-{number}", port, arrived)
                started.append(engine)
                pods.append(pod(number, **{"headgate.dev/address": f"127.0.0.1:{port}"}))
                if number not in down:
                    server = serving.EmbeddedServer(
                        serving.configuration(engine, timeout_keep_alive=60, ws="wsproto")
                    )
                    sock = stack.enter_context(serving.listening_socket("127.0.0.1", port))
                    task = asyncio.create_task(server.serve([sock]))
                    stack.push_async_callback(_stop, server, task)
            addresses = [("127.0.0.1", engine.port) for engine in started]
            cluster = policy(addresses) if policy is not None else envoy_process.original_destination()
            config = envoy_process.configuration(unused_port(), world.port, cluster, **made)
            url = await stack.enter_async_context(envoy_process.running(ENVOY, directory, config))
            found = Rig(world, started, pods, url).apply(*objects)
            stack.push_async_callback(found.http.aclose)
            return found

        yield make


async def _stop(server, task):
    server.stop()
    await server.aclose()
    task.cancel()
    await asyncio.wait([task])
