"""Steady traffic over upgrades, ends of workers, and changes of configuration and objects: nothing fails."""

import os
import signal

from headgate import api

MANAGER = "test"


async def test_upgrades_and_ends_of_workers(start_gateway, start_traffic, eventually):
    """Workers and supervisor are replaced by new ones; clients see only that a connection ends well."""
    gateway = await start_gateway("--workers", "2")
    traffic = start_traffic(gateway)
    await traffic.more()
    before = set(gateway.workers())
    gateway.signal(signal.SIGUSR2)
    await eventually(lambda: len(new := set(gateway.workers())) == 2 and not new & before)
    await traffic.more()
    told = gateway.workers()[0]
    os.kill(told, signal.SIGTERM)
    await eventually(lambda: told not in (now := gateway.workers()) and len(now) == 2)
    await traffic.more()
    await traffic.stop()
    assert traffic.failures == []
    assert traffic.served["stream"] > 50
    assert traffic.served["plain"] > 50
    # The page has the last known counts of a worker that does not respond in time.
    served = traffic.served.total()
    await eventually(lambda: gateway.metric("headgate_gateway_requests_total") >= served)
    assert await gateway.stop() == 0


async def test_a_killed_worker_costs_what_it_was_serving(start_gateway, start_traffic, eventually):
    """Connections that wait for it are served by another; none is refused."""
    gateway = await start_gateway("--workers", "2")
    traffic = start_traffic(gateway)
    await traffic.more()
    killed = gateway.workers()[0]
    os.kill(killed, signal.SIGKILL)
    await traffic.more(200)
    await eventually(lambda: killed not in (now := gateway.workers()) and len(now) == 2)
    await traffic.more()
    await traffic.stop()
    assert len(traffic.failures) <= 6, "as many as there are clients"
    assert not [failure for failure in traffic.failures if "refused" in failure]
    assert gateway.metric("headgate_gateway_worker_restarts_total") == 1


async def test_changes_of_objects_and_settings(
    start_gateway, start_traffic, client, engine, tmp_path, model_server, model_route, eventually
):
    """Routes, pools and settings change again and again."""
    file = tmp_path / "gateway.yaml"
    file.write_text("retries: 2\n")
    gateway = await start_gateway("--workers", "2", "--config", str(file))
    traffic = start_traffic(gateway)

    def reloads() -> float:
        return gateway.metric("headgate_gateway_config_reloads_total", result="valid")

    for turn in range(10):
        half = {"app": "m", "half": str(turn % 2)}
        await client.apply_manifest(model_server(f"m-{turn}", half, engine.port), field_manager=MANAGER)
        await client.apply_manifest(model_route("m", "m", f"m-{turn}"), field_manager=MANAGER)
        await client.apply_manifest(model_server("m", half, engine.port), field_manager=MANAGER)
        file.write_text(f"endpoints: {{retries: {turn}}}\nclients: {{keep_alive_s: {60 + turn}}}\n")
        gateway.signal(signal.SIGHUP)
        await traffic.more(20)
        await eventually(lambda done=turn + 1: reloads() == done)
        await client.apply_manifest(model_route("m", "m"), field_manager=MANAGER)
        await traffic.more(20)
        await client.delete(api.ModelServer, f"m-{turn}", "default")
    await client.apply_manifest(model_server("m", {"app": "m"}, engine.port), field_manager=MANAGER)
    await traffic.stop()
    assert traffic.failures == []
    assert gateway.config()["settings"]["clients"]["keep_alive_s"] == 69
    assert reloads() == 10
