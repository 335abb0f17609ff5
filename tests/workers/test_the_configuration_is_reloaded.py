"""The file may change while serving: valid settings take effect, invalid ones leave everything as it was."""

import json
import signal


def ask(gateway, prompt: str) -> int:
    body = json.dumps({"model": "m", "prompt": prompt}).encode()
    return gateway.http.post(f"{gateway.url}/v1/completions", content=body).status_code


async def test_a_change_of_the_file_takes_effect_and_an_invalid_one_does_not(
    start_gateway, tmp_path, eventually
):
    """Without a signal; the invalid one is told by the log, a metric, /readyz and /debug/config."""
    file = tmp_path / "gateway.yaml"
    file.write_text("clients: {max_body_bytes: 2000}\nlogging: {access_log: off}\n")
    gateway = await start_gateway("--config", str(file), "--endpoints-retries", "3")
    assert ask(gateway, "x" * 5000) == 413
    assert "body_too_large" not in gateway.said()
    file.write_text(
        "clients: {max_body_bytes: 20000}\nendpoints: {retries: 5}\nworkers: {count: 2}\nlisten: {port: 1}\n"
    )
    await eventually(lambda: ask(gateway, "x" * 5000) == 200)
    shown = gateway.config()
    assert shown["settings"]["endpoints"]["retries"] == 3, "flags go before the file"
    assert shown["configuration"]["waiting_for_restart"] == {"workers.count": 2}
    assert "workers.count is now 2 instead of 1, with the next start or upgrade" in gateway.said()

    file.write_text("clients: {max_body_bytes: 2000}\ndrain: 5\n")
    await eventually(lambda: gateway.config()["configuration"]["errors"])
    assert ask(gateway, "x" * 5000) == 200
    error = f"{file}:2:1: error: drain: unknown setting; did you mean shutdown.drain_s?"
    assert gateway.config()["configuration"]["errors"] == [error]
    ready = gateway.get("/readyz")
    assert (ready.status_code, ready.json()["configuration_errors"]) == (200, [error])
    assert f"the new configuration is not used: {error}" in gateway.said()
    assert gateway.metric("headgate_gateway_config_valid") == 0

    file.write_text("clients: {max_body_bytes: 2000}\n")
    await eventually(lambda: ask(gateway, "x" * 5000) == 413)
    await eventually(lambda: " 413 outcome=body_too_large " in gateway.said())
    assert gateway.config()["configuration"]["errors"] == []
    assert gateway.metric("headgate_gateway_config_valid") == 1
    assert gateway.metric("headgate_gateway_config_reloads_total", result="invalid") == 1


async def test_sighup_reads_at_once_and_an_upgrade_takes_the_rest(
    start_gateway, start_traffic, tmp_path, eventually
):
    """More workers, and then fewer, with the next upgrade; one with an invalid file does not begin. No
    request fails over all of it.
    """
    file = tmp_path / "gateway.yaml"
    file.write_text("{}\n")
    gateway = await start_gateway("--config", str(file))
    traffic = start_traffic(gateway)
    first = gateway.workers()
    file.write_text("workers: {count: 2}\nlisten: {host: 203.0.113.1}\n")
    gateway.signal(signal.SIGHUP)
    await eventually(lambda: gateway.config()["configuration"]["waiting_for_restart"])
    gateway.signal(signal.SIGUSR2)
    gateway.signal(signal.SIGHUP)  # nothing is lost or ended by one that comes amid an upgrade
    await eventually(lambda: len(now := gateway.workers()) == 2 and first[0] not in now)
    # An address that the machine does not have ends nothing.
    assert gateway.config()["configuration"]["waiting_for_restart"] == {"listen.host": "203.0.113.1"}
    assert "keeping the previous addresses: cannot listen on 203.0.113.1:0" in gateway.said()
    two = gateway.workers()
    file.write_text("workers: {count: none}\n")
    gateway.signal(signal.SIGUSR2)
    await eventually(lambda: "no upgrade: " in gateway.said())
    assert '"none" is not a whole number' in gateway.said()
    assert gateway.workers() == two
    file.write_text("workers: {count: 1}\n")
    gateway.signal(signal.SIGUSR2)
    await eventually(lambda: len(now := gateway.workers()) == 1 and now[0] not in two)
    await traffic.more(100)  # the socket of the second worker is served by the first
    await traffic.stop()
    assert traffic.failures == []
    assert await gateway.stop() == 0
