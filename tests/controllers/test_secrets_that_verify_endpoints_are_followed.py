"""What a ModelServer or InferencePool says of the Secret that its endpoints are verified by, and when."""

import pytest

from headgate import api

LLM = {"app": "llm"}


@pytest.mark.parametrize(
    ("keys", "reason", "told"),
    [
        (None, "SecretNotFound", "there is no Secret default/ours, or it may not be read"),
        ({"tls_crt": "x"}, "SecretKeyNotFound", "Secret default/ours has no key ca.crt (its keys: tls.crt)"),
        ({"ca_crt": "no PEM"}, "InvalidCertificate", "key ca.crt of Secret default/ours has no certificates"),
    ],
)
@pytest.mark.parametrize("kind", ["server", "pool", "old pool"])
def test_what_is_missing_is_named(kit, kind, keys, reason, told):
    """ResolvedRefs names the annotation, the Secret and the key, and Ready that no Pod is used for it."""
    secrets = [] if keys is None else [kit.secret("ours", **keys)]
    pool = kit.inference_pool("s", LLM, authorities="ours", group=kit.old if kind == "old pool" else kit.new)
    obj = kit.server("s", LLM, authorities="ours") if kind == "server" else pool
    found = kit.conditions(obj, kit.pod("p", LLM), *secrets)
    assert found["Accepted"][0] == "True"
    assert found["ResolvedRefs"][:2] == ("False", reason)
    assert found["ResolvedRefs"][2].startswith(f"metadata.annotations[headgate.dev/tls-ca]: {told}")
    assert found["Ready"][:2] == ("False", "NoReadyEndpoints")
    assert told in found["Ready"][2]


async def test_a_secret_comes_changes_and_goes(client, kit, apiserver_running):
    """The server and the routes to it follow each step, and events tell it."""

    async def reaches(of, name, kind, reason):
        async def probe():
            status = (await client.get(of, name, "default")).status
            found = {each.type: each.reason for each in status.conditions} if status else {}
            return found.get(kind) == reason

        await kit.eventually(probe)

    authority = (apiserver_running.kubeconfig.parent / "pki" / "ca.crt").read_text()
    pod = kit.pod("p", LLM)
    await client.create(pod)
    await client.patch_status(
        api.Pod, "p", "default", {"podIP": "127.1.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    )
    await client.create(kit.server("s", LLM, authorities="ours"))
    await client.create(kit.route("r", kit.rule("s")))
    async with kit.controlling(client):
        await reaches(api.ModelServer, "s", "ResolvedRefs", "SecretNotFound")
        await reaches(api.ModelRoute, "r", "Ready", "NoReadyEndpoints")
        await client.create(kit.secret("ours", ca_crt=authority))
        await reaches(api.ModelServer, "s", "Ready", "EndpointsReady")
        await reaches(api.ModelRoute, "r", "Ready", "EndpointsReady")
        await client.patch(api.Secret, "ours", "default", {"data": {"ca.crt": "aGVsbG8="}})
        await reaches(api.ModelServer, "s", "ResolvedRefs", "InvalidCertificate")
        await client.delete(api.Secret, "ours", "default")
        await reaches(api.ModelServer, "s", "ResolvedRefs", "SecretNotFound")

        async def told():
            events = await client.list(api.Event, "default")
            return {"SecretNotFound", "InvalidCertificate"} <= {event.reason for event in events}

        await kit.eventually(told)
