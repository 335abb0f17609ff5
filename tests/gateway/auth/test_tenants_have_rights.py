"""A tenant uses its models, within its limits, and by its share and priority."""

import json
import math
from types import SimpleNamespace

from headgate import routing
from headgate.api.tenants import Tenant, TenantSpec
from headgate.auth.tenant import Grant
from headgate.dataplane.queueing import queue_hints

USAGE = {"prompt_tokens": 60, "completion_tokens": 30, "total_tokens": 90}
ANSWER = json.dumps({"choices": [{"text": "a", "message": {"content": "a"}}], "usage": USAGE}).encode()


def of(key):
    return {"authorization": f"Bearer {key}"}


async def start(start_guarded, tenants_file, answer=ANSWER, **specs):
    path = tenants_file(**specs)
    settings = {"auth_tenants_file": str(path), "logging_access_log": "json"}
    return await start_guarded(settings, answer)


async def test_other_models_are_forbidden(start_guarded, tenants_file, keys_file):
    """Whether or not they exist; the message names tenant and model, and no secret."""
    key = keys_file.make("team-a")
    gateway = await start(start_guarded, tenants_file, team_a={"models": ["llama-*", "adapter"]})
    response = await gateway.ask(**of(key))
    assert response.status == 403
    error = response.json["error"]
    assert (error["code"], error["type"]) == ("model_not_allowed", "permission_error")
    assert "team-a" in error["message"]
    assert "'m'" in error["message"]
    assert key not in response.body.decode()
    assert (await gateway.ask({"model": "adapter", "prompt": "a"}, **of(key))).status == 200
    assert (await gateway.ask({"model": "other", "prompt": "a"}, **of(key))).status == 403
    assert (await gateway.ask({"model": "llama-9", "prompt": "a"}, **of(key))).status == 404
    anthropics = await gateway.ask({"model": "m", "messages": []}, "/v1/messages", **of(key))
    assert anthropics.json["error"]["type"] == "permission_error"


async def test_the_list_of_models_is_the_tenants(start_guarded, tenants_file, keys_file):
    """What it may not use is not shown either."""
    keys = keys_file.make("team-a"), keys_file.make("team-b")
    gateway = await start(start_guarded, tenants_file, team_a={"models": ["adapter"]}, team_b={})
    seen = []
    for key in keys:
        client = await gateway.connect()
        head = f"host: g\r\nauthorization: Bearer {key}\r\n\r\n"
        client.send(f"GET /v1/models HTTP/1.1\r\n{head}".encode())
        seen.append([each["id"] for each in (await client.response()).json["data"]])
        client.send(f"GET /v1/models/m HTTP/1.1\r\n{head}".encode())
        seen.append((await client.response()).status)
    assert seen == [["adapter"], 403, ["adapter", "m"], 200]


async def test_limits_count_all_its_models(start_guarded, tenants_file, keys_file):
    """Of each window; others are not concerned, and the response says what is left."""
    limits = [{"unit": "hour", "inputTokensPerUnit": 100}, {"unit": "day", "outputTokensPerUnit": 500}]
    first, second = keys_file.make("team-a"), keys_file.make("team-b")
    gateway = await start(start_guarded, tenants_file, team_a={"limits": limits}, team_b={})
    served = await gateway.ask(**of(first))
    assert served.status == 200
    assert served.header("x-ratelimit-limit-tokens") == "100"
    assert (await gateway.ask({"model": "adapter", "prompt": "a"}, **of(first))).status == 200
    refused = await gateway.ask(**of(first))
    assert refused.status == 429
    assert "tenant/team-a/hour" in refused.json["error"]["message"]
    assert refused.header("retry-after") is not None
    assert (await gateway.ask(**of(second))).status == 200
    assert gateway.metric("headgate_gateway_tenant_tokens_total", tenant="team-a", direction="input") == 120


async def test_a_longer_window_holds_too(start_guarded, tenants_file, keys_file):
    """The one that is short is told, and what was reserved in the other is given back."""
    limits = [{"unit": "minute", "outputTokensPerUnit": 1000}, {"unit": "day", "outputTokensPerUnit": 50}]
    key = keys_file.make("team-a")
    gateway = await start(start_guarded, tenants_file, team_a={"limits": limits})
    assert [(await gateway.ask(**of(key))).status for _ in range(3)] == [200, 200, 429]
    refused = await gateway.ask(**of(key))
    assert "tenant/team-a/day" in refused.json["error"]["message"]
    assert gateway.shell.plane.routes.limits.statistics()["reserved"] == 0


async def test_limits_of_a_route_and_a_tenant_both_hold(
    start_guarded, tenants_file, keys_file, start_endpoint
):
    """And each is settled once."""
    key = keys_file.make("team-a")
    gateway = await start(
        start_guarded, tenants_file, team_a={"limits": [{"unit": "day", "inputTokensPerUnit": 10_000}]}
    )
    gateway.serve([gateway.endpoint], limits=routing.TokenLimits(input=100, unit="day", unit_s=86_400))
    assert [(await gateway.ask(**of(key))).status for _ in range(3)] == [200, 200, 429]
    limits = gateway.shell.plane.routes.limits.by_route
    assert sorted(limit.input.used for limit in limits.values()) == [120, 120]


async def test_limits_outlast_new_objects_and_end_with_their_tenant(start_guarded, tenants_file, keys_file):
    """What was used stays used when a route changes, and when the limit does."""
    key = keys_file.make("team-a")
    gateway = await start(
        start_guarded, tenants_file, team_a={"limits": [{"unit": "day", "inputTokensPerUnit": 100}]}
    )
    assert [(await gateway.ask(**of(key))).status for _ in range(3)] == [200, 200, 429]
    gateway.serve([gateway.endpoint])
    assert (await gateway.ask(**of(key))).status == 429
    tenants_file(team_a={"limits": [{"unit": "day", "inputTokensPerUnit": 1000}]})
    gateway.shell.services.credentials.look()
    assert (await gateway.ask(**of(key))).status == 200
    tenants_file(team_a={})
    gateway.shell.services.credentials.look()
    assert not gateway.shell.plane.routes.limits.by_route


async def test_a_tenant_that_is_not_defined(start_guarded, tenants_file, keys_file):
    """Is nobody, once any is defined; unless there is one called default."""
    key = keys_file.make("team-x")
    gateway = await start(start_guarded, tenants_file)
    assert (await gateway.ask(**of(key))).status == 200
    tenants_file(team_a={})
    gateway.shell.services.credentials.look()
    refused = await gateway.ask(**of(key))
    assert (refused.status, refused.json["error"]["code"]) == (403, "unknown_tenant")
    tenants_file(default={"models": ["adapter"]})
    gateway.shell.services.credentials.look()
    assert (await gateway.ask(**of(key))).json["error"]["code"] == "model_not_allowed"
    assert (await gateway.ask({"model": "adapter"}, **of(key))).status == 200


async def test_its_name_is_in_metrics_and_logs(start_guarded, tenants_file, keys_file):
    """And of keys there is nothing."""
    key = keys_file.make("team-a")
    gateway = await start(start_guarded, tenants_file)
    await gateway.ask(**of(key))
    assert gateway.metric("headgate_gateway_tenant_requests_total", tenant="team-a", code="200") == 1
    (line,) = gateway.log_lines()
    assert json.loads(line)["tenant"] == "team-a"


async def test_priorities_are_bounded(start_guarded, tenants_file, keys_file):
    """An objective counts only where the tenant may choose one, and then within its bounds."""
    plain, chooser = keys_file.make("plain"), keys_file.make("chooser")
    bounds = {"priority": {"min": -1, "max": 3}}
    gateway = await start(
        start_guarded, tenants_file, plain=bounds, chooser=bounds | {"mayChoose": ["Objective"]}
    )
    for key in (plain, chooser):
        for objective in ("-9", "2", "9"):
            await gateway.ask(x_llm_d_inference_objective=objective, **of(key))
    found = [json.loads(line)["priority"] for line in gateway.log_lines()]
    assert found == [0, 0, 0, -1, 2, 3]


async def test_settings_for_anyone_do_not_widen_its_rights(start_guarded, tenants_file, keys_file):
    """They are for clients without a Tenant: what a Tenant may choose, its definition says."""
    settings = {
        "logging_access_log": "json",
        "queue_objectives_from": "anyone",
        "queue_fairness_ids_from": "anyone",
    }
    key = keys_file.make("plain")
    gateway = await start_guarded(settings | {"auth_tenants_file": str(tenants_file(plain={}))}, ANSWER)
    headers = {"x_llm_d_inference_objective": "9", "x_gateway_inference_fairness_id": "other"}
    await gateway.ask(**headers, **of(key))
    tenants_file()
    gateway.shell.services.credentials.look()
    await gateway.ask(**headers, **of(key))
    assert [json.loads(line)["priority"] for line in gateway.log_lines()] == [0, 9]
    for is_defined, flow in ((True, "plain"), (False, "other")):
        asked = SimpleNamespace(
            tenant=Grant("plain", Tenant(spec=TenantSpec()) if is_defined else None),
            headers=[(b"x-gateway-inference-fairness-id", b"other")],
            is_from_trusted=False,
            is_http_1_0=False,
            objective_s=math.inf,
            client_address="10.0.0.1",
        )
        assert queue_hints.read(asked, gateway.shell.settings, is_stream=False).flow == flow


async def test_its_share_is_the_weight_of_its_flow(start_guarded, tenants_file, keys_file):
    """Beside the weights of the settings, and changed with the file."""
    keys_file.make("team-a")
    gateway = await start(start_guarded, tenants_file, team_a={"share": 3}, team_b={})
    assert gateway.shell.settings.queue.weights == ("team-a=3",)
    tenants_file(team_a={"share": 3}, team_b={"share": 5})
    gateway.shell.services.credentials.look()
    gateway.shell.change(gateway.shell.settings.replace(queue_weights=("other=2",)))
    assert gateway.shell.settings.queue.weights == ("other=2", "team-a=3", "team-b=5")
