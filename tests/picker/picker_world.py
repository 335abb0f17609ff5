"""A picker on a loopback port, and a proxy that speaks with the classes generated from Envoy's
definitions."""

import asyncio
import json
from dataclasses import dataclass, field

import msgspec
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf import json_format

from headgate import api, extproc, fleet, loop_turns, routing, rpc
from headgate.api import gie_v1, gie_v1alpha1
from headgate.picker.shell import Shell
from headgate.telemetry import Registry

PATIENCE_S = 30.0
OLD, NEW = gie_v1alpha1.GROUP, gie_v1.GROUP
POOL = api.ObjectRef(routing.INFERENCE_POOL, "default", "pool")
ADDRESS = "x-gateway-destination-endpoint"
FULL_DUPLEX, BUFFERED, STREAMED, NONE = 4, 2, 1, 0


# -- objects


def metadata(name, age=0, **more):
    """Of two objects the one with the greater age is older."""
    created = f"2026-01-01T00:00:{59 - age:02}Z"
    return {"name": name, "namespace": "default", "creationTimestamp": created, **more}


def pool(name="pool", ports=(8000,), **notes):
    annotations = {f"headgate.dev/{key}": value for key, value in notes.items()}
    spec = {"selector": {"matchLabels": {"app": name}}, "targetPorts": [{"number": each} for each in ports]}
    made = {"metadata": metadata(name, annotations=annotations), "spec": spec}
    return msgspec.convert(made, gie_v1.InferencePool)


def pod(number, app="pool", *, is_ready=True, labels=None, ip=None, **notes):
    """The Pod with the address 192.168.1.NUMBER, or `ip`."""
    ready = {"type": "Ready", "status": "True" if is_ready else "False"}
    meta = metadata(f"pod-{number}", labels={"app": app, **(labels or {})}, annotations=notes)
    status = {"podIP": ip or f"192.168.1.{number}", "conditions": [ready]}
    return msgspec.convert({"metadata": meta, "status": status}, api.Pod)


def model(name, criticality="Default", age=0, pool="pool", group=NEW, model_name=None, **targets):
    """Keyword arguments are weights of targets."""
    spec = {
        "modelName": model_name or name,
        "criticality": criticality,
        "poolRef": {"name": pool, "group": group},
        "targetModels": [
            {"name": each.replace("_", "-"), "weight": weight} for each, weight in targets.items()
        ],
    }
    return msgspec.convert({"metadata": metadata(name, age), "spec": spec}, api.InferenceModel)


def objective(name, priority, pool="pool", group=NEW):
    spec = {"poolRef": {"name": pool, "group": group}}
    if priority is not None:
        spec["priority"] = priority
    return msgspec.convert({"metadata": metadata(name), "spec": spec}, api.InferenceObjective)


OBJECTIVES = (
    objective("sql-lora", 2),
    objective("sql-lora-sheddable", None),
    objective("my-model", 2),
    objective("direct-model", 2),
    objective("batch", -1),
    objective("inference-objective-with-priority-4", 4),
)


def completion(model="my-model", prompt="test", **more):
    body = {"model": model, "prompt": prompt, "max_tokens": 100, "temperature": 0, **more}
    return json.dumps(body, separators=(",", ":")).encode()


async def until(condition):
    """Wait until it holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


# -- the picker


class World:
    """One picker; its engines say what the test gives them."""

    def __init__(self, shell: Shell, port: int, registry: Registry) -> None:
        self.shell, self.port, self.registry = shell, port, registry
        self.clients: list[rpc.Client] = []

    def apply(self, *objects, pods=3, waits_s=None):
        """Three Pods, or those that are among the objects."""

        def of(*kinds):
            return [obj for obj in objects if isinstance(obj, kinds)]

        there = of(api.Pod) or [pod(number) for number in range(1, pods + 1)]
        inference = routing.InferenceObjects(
            pools=of(gie_v1.InferencePool, gie_v1alpha1.InferencePool),
            models=of(api.InferenceModel),
            objectives=of(api.InferenceObjective),
            rewrites=of(api.InferenceModelRewrite),
        )
        self.shell.use(routing.translate([], [], there, (), inference))
        self.shell.plane.is_ready = True
        return self

    def see(self, *readings, key=POOL, max_adapters=4):
        """What engines report from now on: waiting requests, KV usage, adapters in use."""
        state = self.shell.plane.pools[key]
        for load, (waiting, kv_usage, *adapters) in zip(state.loads, readings, strict=True):
            load.read(
                fleet.EngineReading(
                    at=self.shell.now() + 3600,
                    waiting=waiting,
                    running=0,
                    kv_usage=kv_usage,
                    adapters_running=frozenset(adapters),
                    max_adapters=max_adapters,
                )
            )
        state.note_adapters()
        return self

    @property
    def loads(self):
        return self.shell.plane.pools[POOL].loads

    def in_flight(self):
        """The number of requests of each endpoint, by the last part of its address."""
        return {int(load.endpoint.host.rpartition(".")[2]): load.requests for load in self.loads}

    async def stream(self, **options) -> "Proxy":
        """A stream on a connection of its own."""
        client = await rpc.connect("127.0.0.1", self.port, loop_turns.Turns(self.shell.loop))
        self.clients.append(client)
        return Proxy(client, **options)

    async def ask(self, body=None, **options) -> "Proxy":
        """A request with its whole body."""
        proxy = await self.stream()
        await proxy.ask(completion() if body is None else body, **options)
        return proxy

    def sample(self, metric, **labels):
        """The value of a metric."""
        content, _ = self.registry.page("text/plain")
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        found = 0.0
        for line in content.decode().splitlines():
            if line.startswith((f"{metric}{{", f"{metric} ")) and all(each in line for each in wanted):
                found += float(line.rpartition(" ")[2])
        return found


@dataclass
class Told:
    """What the picker told the proxy about a request."""

    headers: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    metadata: dict = field(default_factory=dict)
    body: bytes = b""
    ends: int = 0
    """How many of its messages end the body."""
    messages: int = 0

    @property
    def address(self):
        return self.headers.get(ADDRESS)


class Proxy:
    """One stream. It notes what it is told, as Envoy would go by it."""

    def __init__(self, client, *, request_mode=FULL_DUPLEX, response_mode=FULL_DUPLEX, says_mode=True):
        self._incoming: asyncio.Queue = asyncio.Queue()
        self.status = asyncio.get_running_loop().create_future()
        self.call = client.call(extproc.PATH, self)
        self.request_mode, self.response_mode, self.says_mode = request_mode, response_mode, says_mode
        self.is_first = True

    # what the client reports

    def message(self, data):
        self._incoming.put_nowait(pb.ProcessingResponse.FromString(data))

    def closed(self, status):
        if not self.status.done():
            self.status.set_result(status)
        self._incoming.put_nowait(None)

    # what the proxy does

    def send(self, **fields):
        message = pb.ProcessingRequest(**fields)
        if self.is_first and self.says_mode:
            message.protocol_config.request_body_mode = self.request_mode
            message.protocol_config.response_body_mode = self.response_mode
        self.is_first = False
        self.call.send(message.SerializeToString())

    def headers(
        self, ends=False, subset=None, path="/v1/completions", method="POST", attributes=None, **headers
    ):
        message = pb.ProcessingRequest()
        named = {":method": method, ":path": path, "content-type": "application/json"}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in named.items():
            if value is not None:
                added = message.request_headers.headers.headers.add()
                added.key, added.raw_value = name, value.encode()
        message.request_headers.end_of_stream = ends
        if subset is not None:
            hint = {"x-gateway-destination-endpoint-subset": subset}
            json_format.ParseDict(hint, message.metadata_context.filter_metadata["envoy.lb.subset_hint"])
        if attributes is not None:
            message.attributes["envoy.filters.http.ext_proc"].update(attributes)
        self.send(
            request_headers=message.request_headers,
            metadata_context=message.metadata_context,
            attributes=message.attributes,
        )

    def body(self, body, ends=True):
        self.send(request_body=pb.HttpBody(body=body, end_of_stream=ends))

    async def ask(self, body, *, cut=0, **headers):
        """The whole request, and what the picker says to it; `cut`: the body in two parts."""
        self.headers(**headers)
        parts = [body[:cut], body[cut:]] if cut else [body]
        for place, part in enumerate(parts):
            self.body(part, ends=place == len(parts) - 1)
        self.told = await self.reply()
        return self.told

    async def next(self):
        async with asyncio.timeout(PATIENCE_S):
            return await self._incoming.get()

    async def silence(self):
        """Nothing comes for a moment."""
        await asyncio.sleep(0.05)
        assert self._incoming.empty()

    async def reply(self):
        """The reply to a request with a body, or an immediate response."""
        told = Told()
        while True:
            message = await self.next()
            assert message is not None, await self.status
            told.messages += 1
            kind = message.WhichOneof("response")
            if kind == "immediate_response":
                return message.immediate_response
            common = getattr(message, kind).response
            _note(told, common.header_mutation)
            told.metadata |= json_format.MessageToDict(message.dynamic_metadata)
            if kind == "request_headers":
                assert common.clear_route_cache
            part = common.body_mutation.streamed_response
            told.body += part.body or common.body_mutation.body
            told.ends += part.end_of_stream
            if part.end_of_stream or self.request_mode != FULL_DUPLEX:
                return told

    # the response

    def respond(self, status=200, ends=False, served=None, attributes=None, **headers):
        """The head of the response."""
        message = pb.ProcessingRequest()
        for name, value in {":status": str(status), **headers}.items():
            added = message.response_headers.headers.headers.add()
            added.key, added.raw_value = name.replace("_", "-"), value.encode()
        message.response_headers.end_of_stream = ends
        if served is not None:
            hint = {"x-gateway-destination-endpoint-served": served}
            json_format.ParseDict(hint, message.metadata_context.filter_metadata["envoy.lb"])
        if attributes is not None:
            message.attributes["envoy.filters.http.ext_proc"].update(attributes)
        self.send(
            response_headers=message.response_headers,
            metadata_context=message.metadata_context,
            attributes=message.attributes,
        )

    def response_part(self, body, ends=False):
        self.send(response_body=pb.HttpBody(body=body, end_of_stream=ends))

    async def response_head(self):
        """What happens to the head of the response."""
        told = Told()
        message = await self.next()
        assert message is not None, await self.status
        assert message.WhichOneof("response") == "response_headers"
        _note(told, message.response_headers.response.header_mutation)
        return told

    async def response_parts(self):
        """The parts of the body that the client gets, to the end of the stream."""
        parts, ends = [], 0
        while (message := await self.next()) is not None:
            if message.WhichOneof("response") == "response_trailers":
                parts.append("trailers")
                continue
            part = message.response_body.response.body_mutation.streamed_response
            parts.append(part.body)
            ends += part.end_of_stream
        assert ends == ("trailers" not in parts)
        return parts

    async def serve(self, *parts, status=200, kind="application/json", **more):
        """A whole response; returns the parts that the client gets."""
        self.respond(status, content_type=kind, **more)
        await self.response_head()
        for place, part in enumerate(parts):
            self.response_part(part, ends=place == len(parts) - 1)
        return await self.response_parts()


def _note(told, mutation):
    for each in mutation.set_headers:
        assert each.append_action == 2, "it would be appended"
        told.headers[each.header.key] = each.header.raw_value.decode()
    told.removed += mutation.remove_headers
