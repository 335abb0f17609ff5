"""Status controllers on the real API server: what is written, when, and what `kubectl` shows of it."""

import asyncio

import msgspec
import pytest

from headgate import api, cluster

LLM = {"app": "llm"}
AUDIT = {"reason": "Passed", "message": "nothing found", "lastTransitionTime": "2026-01-01T00:00:00Z"}


async def condition(client, of, name, kind="Ready"):
    """(status, reason) of a condition as it is stored, or None."""
    status = (await client.get(of, name, "default")).status
    found = {each.type: (each.status, each.reason) for each in status.conditions} if status else {}
    return found.get(kind)


async def reaches(client, kit, of, name, reason, kind="Ready"):
    async def probe():
        found = await condition(client, of, name, kind)
        return found is not None and found[1] == reason

    await kit.eventually(probe)


@pytest.mark.parametrize("order", ["pods first", "routes first"])
async def test_the_order_of_creation_does_not_matter(client, kit, order):
    """Pods, server, route, or the other way round while the controller looks on: it ends ready."""
    steps = [
        lambda: kit.put_pod(client, "p", LLM),
        lambda: client.create(kit.server("s", LLM)),
        lambda: client.create(kit.route("r", kit.rule("s"))),
    ]
    async with kit.controlling(client):
        for step in steps if order == "pods first" else reversed(steps):
            await step()
        await reaches(client, kit, api.ModelServer, "s", "EndpointsReady")
        await reaches(client, kit, api.ModelRoute, "r", "EndpointsReady")
    status = (await client.get(api.ModelRoute, "r", "default")).status
    assert [(each.type, each.status) for each in status.conditions] == [
        ("Accepted", "True"),
        ("ResolvedRefs", "True"),
        ("Ready", "True"),
    ]
    assert status.observed_generation == 1


async def test_a_dangling_reference_comes_and_goes(client, kit):
    """Deleting the ModelServer of a ready route makes it say so, and a new one mends it."""
    await kit.put_pod(client, "p", LLM)
    await client.create(kit.server("s", LLM))
    await client.create(kit.route("r", kit.rule("s")))
    async with kit.controlling(client):
        await reaches(client, kit, api.ModelRoute, "r", "EndpointsReady")
        await client.delete(api.ModelServer, "s", "default")
        await reaches(client, kit, api.ModelRoute, "r", "ModelServerNotFound", "ResolvedRefs")
        assert await condition(client, api.ModelRoute, "r") == ("False", "NoReadyEndpoints")
        await client.create(kit.server("s", LLM))
        await reaches(client, kit, api.ModelRoute, "r", "EndpointsReady")


async def test_an_edited_spec_is_observed(client, kit):
    """The conditions of an edited object carry the generation that they were made from."""
    await client.create(kit.route("r", kit.rule("s")))
    async with kit.controlling(client):
        await reaches(client, kit, api.ModelRoute, "r", "NoReadyEndpoints")
        edited = await client.patch(api.ModelRoute, "r", "default", {"spec": {"loraAdapters": ["a"]}})

        async def observed():
            status = (await client.get(api.ModelRoute, "r", "default")).status
            generations = {status.observed_generation, *(c.observed_generation for c in status.conditions)}
            return generations == {edited.metadata.generation}

        await kit.eventually(observed)
    assert edited.metadata.generation == 2


async def test_what_did_not_change_is_not_written(client, kit):
    """A second controller that finds everything as it should be writes nothing."""
    await kit.put_pod(client, "p", LLM)
    await client.create(kit.server("s", LLM))
    await client.create(kit.route("r", kit.rule("s")))
    async with kit.controlling(client):
        await reaches(client, kit, api.ModelServer, "s", "EndpointsReady")
        await reaches(client, kit, api.ModelRoute, "r", "EndpointsReady")
    before = (await client.get(api.ModelRoute, "r", "default")).metadata.resource_version
    async with kit.controlling(client) as second:

        async def is_idle():
            seen = second.statistics()
            return seen.assessed >= 2 and not seen.queue.processing and not seen.queue.delayed

        await kit.eventually(is_idle)
        assert second.statistics().written == 0
    assert (await client.get(api.ModelRoute, "r", "default")).metadata.resource_version == before


async def test_a_foreign_write_is_mended_and_foreign_conditions_kept(client, kit):
    """A status that somebody overwrites comes back, beside a condition that is not ours."""
    await client.create(kit.server("s", LLM))
    async with kit.controlling(client):
        await reaches(client, kit, api.ModelServer, "s", "NoReadyEndpoints")
        theirs = {"conditions": [{"type": "Audited", "status": "True", **AUDIT}]}
        await client.patch_status(api.ModelServer, "s", "default", theirs)
        await reaches(client, kit, api.ModelServer, "s", "NoReadyEndpoints")
        assert await condition(client, api.ModelServer, "s", "Audited") == ("True", "Passed")


async def test_a_write_that_comes_too_late_is_made_anew(client, kit, monkeypatch):
    """An object that changes between reading and writing is refused by the server, and done again."""
    await client.create(kit.server("s", LLM))
    patch, meddled = client.patch, []

    async def meddling(of, name, namespace, content, *args, **options):
        if of is api.ModelServer and not meddled:
            meddled.append(await patch(of, name, namespace, {"metadata": {"labels": {"late": "yes"}}}))
        return await patch(of, name, namespace, content, *args, **options)

    monkeypatch.setattr(client, "patch", meddling)
    async with kit.controlling(client) as controller:
        await reaches(client, kit, api.ModelServer, "s", "NoReadyEndpoints")
        assert controller.statistics().conflicts >= 1
        assert controller.statistics().queue.retries == 0


async def test_a_deleted_object_is_let_go(client, kit, monkeypatch):
    """An object that is gone when its status is written is no failure that comes back."""
    await client.create(kit.server("s", LLM))
    patch = client.patch

    async def deleting(of, name, namespace, *args, **options):
        if of is api.ModelServer:
            await client.delete(of, name, namespace)
        return await patch(of, name, namespace, *args, **options)

    monkeypatch.setattr(client, "patch", deleting)
    async with kit.controlling(client) as controller:

        async def is_gone():
            return not await client.list(api.ModelServer) and controller.statistics().assessed > 0

        await kit.eventually(is_gone)

        async def is_idle():
            return not controller.statistics().queue.processing

        await kit.eventually(is_idle)
        seen = controller.statistics()
        assert (seen.written, seen.queue.retries, seen.queue.failing) == (0, 0, 0)


async def test_turns_are_told_as_events(client, kit):
    """What turns bad is a Warning, what turns good is Normal, about the object, with the reason."""
    await client.create(kit.server("s", LLM))
    async with kit.controlling(client) as controller:
        await reaches(client, kit, api.ModelServer, "s", "NoReadyEndpoints")
        await kit.put_pod(client, "p", LLM)
        await reaches(client, kit, api.ModelServer, "s", "EndpointsReady")

        async def told():
            return not controller.statistics().events.pending and len(await events()) >= 4

        async def events():
            return {
                (each.type, each.reason, each.involved_object.name)
                for each in await client.list(api.Event, "default")
            }

        await kit.eventually(told)
        assert await events() == {
            ("Warning", "NoPodsSelected", "s"),
            ("Warning", "NoReadyEndpoints", "s"),
            ("Normal", "ResolvedRefs", "s"),
            ("Normal", "EndpointsReady", "s"),
        }


async def test_pools_without_conflicts_get_no_warning(client, kit):
    """Conflicted is False when all is well; only other conditions are worth a Warning when they are."""
    await client.create(kit.inference_pool("pool", LLM))
    async with kit.controlling(client) as controller:

        async def told():
            return not controller.statistics().events.pending and len(await reasons()) >= 2

        async def reasons():
            return {each.reason for each in await client.list(api.Event, "default")}

        await kit.eventually(told)
        assert await reasons() == {"NoPodsSelected", "NoRoute"}


async def test_of_objects_of_a_controller_no_turns_are_told(client, kit):
    """The controller of Models tells how a Model stands, and so nothing about each of its many objects."""
    maker = await client.create(kit.server("maker", LLM))
    owner = api.OwnerReference(
        api_version=maker.resource.api_version,
        kind=maker.resource.kind,
        name="maker",
        uid=maker.metadata.uid,
        controller=True,
    )
    made = kit.server("made", LLM)
    metadata = msgspec.structs.replace(made.metadata, owner_references=[owner])
    await client.create(msgspec.structs.replace(made, metadata=metadata))
    async with kit.controlling(client) as controller:
        for name in ("maker", "made"):
            await reaches(client, kit, api.ModelServer, name, "NoReadyEndpoints")

        async def told():
            return not controller.statistics().events.pending and await about()

        async def about():
            return {each.involved_object.name for each in await client.list(api.Event, "default")}

        await kit.eventually(told)
        assert await about() == {"maker"}


@pytest.mark.kubectl
async def test_kubectl_shows_the_ready_column(apiserver_running, client, kit):
    """`kubectl get` prints True under Ready once there is a ready Pod, `-o wide` how many; `wait` returns."""
    await kit.put_pod(client, "p", LLM)
    await client.create(kit.server("s", LLM))
    await client.create(kit.route("r", kit.rule("s")))

    async def kubectl(*words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            f"--kubeconfig={apiserver_running.kubeconfig}",
            f"--cache-dir={apiserver_running.kubeconfig.parent / 'cache'}",
            *words,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        return output.decode()

    async with kit.controlling(client):
        await kubectl("wait", "modelroute/r", "modelserver/s", "--for=condition=Ready", "--timeout=60s")
        for kind in ("modelservers", "modelroutes"):
            head, row = (await kubectl("get", kind)).splitlines()
            column = head.index("READY")
            assert row[column:].split()[0] == "True"
        for kind, told in (
            ("modelservers", "1 of 1 Pods ready"),
            ("modelroutes", "1 endpoint in 1 ModelServer"),
        ):
            head, row = (await kubectl("get", kind, "-o", "wide")).splitlines()
            assert row[head.index("STATUS") :].startswith(told)


async def test_a_server_that_is_away_is_waited_for(tmp_path, kit, unused_tcp_port):
    """The controllers start before their API server, and stop when told to, ready or not."""
    from headgate import apiserver
    from headgate.controllers import ControllersConfig, run_controllers

    config = apiserver.Config(tmp_path / "state", port=unused_tcp_port)
    async with apiserver.running(config) as server:
        kubeconfig = server.kubeconfig
    stop, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_controllers(ControllersConfig(kubeconfig=kubeconfig), stop, ready.set))
        await asyncio.sleep(0.05)
        assert not ready.is_set()
        async with apiserver.running(config), cluster.Client.from_kubeconfig(kubeconfig) as client:
            async with asyncio.timeout(60):
                await ready.wait()
            await client.create(kit.server("s", LLM))
            await reaches(client, kit, api.ModelServer, "s", "NoPodsSelected", "ResolvedRefs")
            stop.set()
