"""A data plane alone, and requests without a client."""

import json
import random

from headgate import api, routing
from headgate.requests.data_plane import DataPlane
from headgate.requests.in_process import InProcess
from headgate.requests.observer import Unobserved
from headgate.requests.rules import Rules

POOL = api.ObjectRef("ModelServer", "default", "pool")
ROUTE = api.ObjectRef("ModelRoute", "default", "route")


class FirstWins(random.Random):
    """Breaks ties in favour of the first."""

    def random(self) -> float:
        return 0.999


class Asked:
    """What a client asks for."""

    content_coding = b""
    method = b"POST"
    is_from_trusted = True
    tenant = None
    held_bytes = 0

    def __init__(self, body, path="/v1/completions", now=1000.0, **headers):
        self.path = path
        self.body = json.dumps(body).encode() if isinstance(body, dict) else body
        self.arrived_at = now
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    def header(self, name):
        return next((value.decode() for key, value in self.headers if key == name), "")


class Plane:
    """A data plane with one route and one pool, and the time."""

    def __init__(self, *, endpoints=2, limits=None, connector=None, policy="least-work", **pool):
        nobody = Unobserved()
        self.now = 1000.0
        self.pool_fields, self.limits, self.connector = pool, limits, connector
        self.plane = DataPlane(
            Rules(
                max_requests=10,
                retries=1,
                response_timeout_s=600.0,
                stream_response_timeout_s=300.0,
                idle_timeout_s=60.0,
                remote_min_tokens=0,
                ask_tokens_again_s=0.1,
                believes_objectives=True,
                policy=policy,
            ),
            FirstWins(),
            nobody,
            nobody,
        )
        self.serve(range(endpoints))
        self.plane.is_ready = True

    def serve(self, places):
        """The pool has the endpoints of these numbers; even ones only prefill, if there is a connector."""
        made = tuple(routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 9000 + place) for place in places)
        phases = None
        if self.connector is not None:
            roles = {
                endpoint: routing.Role(prefills=place % 2 == 0, decodes=place % 2 == 1, group="g")
                for place, endpoint in zip(places, made, strict=True)
            }
            phases = routing.PrefillDecode(connector=self.connector, roles=roles, remote_tokens=0)
        route = routing.Route(
            key=ROUTE,
            name="default/route",
            model="m",
            adapters=(),
            rules=(routing.Rule("rule", None, (routing.Target(POOL, 100),)),),
            created="2026-01-01T00:00:00Z",
            limits=self.limits,
        )
        pool = routing.Pool(key=POOL, endpoints=made, phases=phases, **self.pool_fields)
        self.plane.use(routing.Snapshot(models={"m": (route,)}, pools={POOL: pool}), self.now)

    @property
    def pool(self):
        return self.plane.pools[POOL]

    def ask(self, body=None, **kwargs):
        """A request that has just come, in the least shell."""
        body = {"model": "m", "prompt": "hello"} if body is None else body
        shell = InProcess(self.plane, Asked(body, now=self.now, **kwargs))
        shell.start(self.now)
        return shell

    def report(self, shell, event, *arguments, **keywords):
        """One event, and what follows from it."""
        event(shell.life, *arguments, self.now, **keywords)
        shell.settle(self.now)
        shell.life.validate()
