"""The health and metrics of a controller, for probes and Prometheus."""

import asyncio
import contextlib
import sys

import httpx2
from click.testing import CliRunner

from headgate.cli import main


@contextlib.asynccontextmanager
async def controller(kubeconfig, port):
    words = ("controller", f"--kubeconfig={kubeconfig}", f"--metrics-port={port}", "--log-level=warning")
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "headgate", *words)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def status(client, url):
    with contextlib.suppress(httpx2.TransportError):
        return (await client.get(url)).status_code
    return 0


async def until(holds):
    async with asyncio.timeout(60):
        while not await holds():
            await asyncio.sleep(0.05)


async def test_its_pages_show_what_it_does(apiserver_running, client, kit, unused_tcp_port):
    """It is ready once all objects are loaded; then it writes, which its metrics count."""
    await client.create(kit.route("chat", kit.rule("llama")))
    async with controller(apiserver_running.kubeconfig, unused_tcp_port) as url, httpx2.AsyncClient() as http:
        await until(lambda: _is(http, f"{url}/readyz", 200))
        assert await status(http, f"{url}/healthz") == 200

        async def has_written():
            page = (await http.get(f"{url}/metrics")).text
            return "headgate_controller_statuses_written_total 1.0" in page

        await until(has_written)
        page = (await http.get(f"{url}/metrics")).text
        assert "headgate_controller_leader 1.0" in page
        assert 'headgate_controller_objects{kind="routes"} 1.0' in page
        assert "headgate_build_info{" in page


async def test_without_an_api_server_it_is_alive_and_not_ready(unused_tcp_port_factory, tmp_path):
    file, closed = tmp_path / "kubeconfig", unused_tcp_port_factory()
    file.write_text(
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{closed}'}}}}]\n"
        "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
    )
    async with controller(file, unused_tcp_port_factory()) as url, httpx2.AsyncClient() as http:
        await until(lambda: _is(http, f"{url}/healthz", 200))
        assert await status(http, f"{url}/readyz") == 503


async def _is(http, url, wanted):
    return await status(http, url) == wanted


def test_an_address_that_is_not_there_is_told_with_the_option_to_change(tmp_path, unused_tcp_port):
    words = ["controller", "--kubeconfig", str(tmp_path / "none"), "--metrics-port", str(unused_tcp_port)]
    result = CliRunner().invoke(main, [*words, "--metrics-host", "192.0.2.1"])
    assert result.exit_code == 1
    assert "--metrics-host" in result.output
