"""Pools with prefill endpoints and decode endpoints."""

import json
from dataclasses import dataclass

import pytest

from headgate import api, routing

KEY = api.ObjectRef("ModelServer", "default", "pool")
PARAMS = {
    "do_remote_prefill": True,
    "remote_block_ids": [1, 2],
    "remote_engine_id": "e-1",
    "remote_port": 5557,
}
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def chat(**members):
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 20, **members}


@dataclass
class Split:
    """A gateway with one pool, its endpoints by what they do."""

    gateway: object
    prefill: list
    decode: list
    roles: dict

    def use(self, prefill=None, decode=None, **pool):
        """The pool with these of its endpoints."""
        kept = [*(self.prefill if prefill is None else prefill), *(self.decode if decode is None else decode)]
        made = self.gateway.shell.plane.snapshot.pools[KEY]
        roles = {endpoint: self.roles[endpoint.port] for endpoint in made.endpoints}
        ports = [endpoint.port for endpoint in kept]
        roles = {endpoint: role for endpoint, role in roles.items() if endpoint.port in ports}
        phases = routing.PrefillDecode(
            connector=made.phases.connector, roles=roles, remote_tokens=made.phases.remote_tokens
        )
        fields = {"timeout_s": made.timeout_s, "attempts": made.attempts, **pool}
        changed = routing.Pool(key=KEY, endpoints=tuple(roles), phases=phases, **fields)
        snapshot = self.gateway.shell.plane.snapshot
        self.gateway.shell.use(routing.Snapshot(models=snapshot.models, pools={KEY: changed}))

    def load(self, endpoint):
        """The account of an endpoint."""
        return next(
            load for load in self.gateway.shell.plane.ledger.loads() if load.endpoint.port == endpoint.port
        )

    def decisions(self, decision):
        return self.gateway.metric("headgate_gateway_prefill_decisions_total", decision=decision)

    def failed(self, reason):
        return self.gateway.metric("headgate_gateway_attempts_failed_total", reason=reason)


@pytest.fixture
async def split(start_gateway, start_endpoint):
    """Starts a pool of so many prefill and decode endpoints; endpoint number i is of group i % groups."""

    async def start(connector="nixl", prefill=1, decode=1, groups=1, remote_tokens=0, settings=None, **pool):
        gateway = await start_gateway(settings=settings)
        made, roles = [], {}
        for place in range(prefill + decode):
            endpoint = await start_endpoint()
            made.append(endpoint)
            is_prefill = place < prefill
            of_role = place if is_prefill else place - prefill
            roles[endpoint.port] = routing.Role(
                prefills=is_prefill, decodes=not is_prefill, group=f"g{of_role % groups}", bootstrap_port=9000
            )
        by_endpoint = {
            routing.Endpoint(f"default/pod-{place}", "127.0.0.1", endpoint.port): roles[endpoint.port]
            for place, endpoint in enumerate(made)
        }
        phases = routing.PrefillDecode(connector=connector, roles=by_endpoint, remote_tokens=remote_tokens)
        gateway.serve(made, phases=phases, **pool)
        return Split(gateway, made[:prefill], made[prefill:], roles)

    return start


@pytest.fixture(name="chat")
def _chat():
    """Makes the body of a chat completion."""
    return chat


@pytest.fixture
def handed_over():
    """Answers a prefill as vLLM does: one token, and where the blocks are."""

    def answer(call, params=PARAMS, cached=None):
        usage = {"prompt_tokens": 100, "completion_tokens": 1}
        if cached is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": cached}
        call.answer(json.dumps({"choices": [], "usage": usage, "kv_transfer_params": params}).encode())

    return answer


@pytest.fixture
def events():
    """A stream of events in pieces: its head, events with a text, and its end."""

    class Events:
        head = STREAM_HEAD
        end = chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"

        @staticmethod
        def text(text):
            return chunk(b'data: {"choices":[{"delta":{"content":"%b"}}]}\n\n' % text)

    return Events
