"""`headgate controller` as a process."""

import asyncio
import signal
import sys

from click.testing import CliRunner

from headgate.cli import main


async def test_it_says_when_it_is_ready_and_ends_on_sigterm(apiserver_running):
    """One line tells that it works; SIGTERM ends it with 0."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "headgate",
        "controller",
        f"--kubeconfig={apiserver_running.kubeconfig}",
        "--log-level=warning",
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            assert process.stderr
            assert await process.stderr.readline() == b"headgate controller is ready\n"
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_a_kubeconfig_that_is_not_there_is_one_line(tmp_path):
    """A wrong path is told with the path, without a traceback."""
    result = CliRunner().invoke(main, ["controller", "--kubeconfig", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert str(tmp_path / "none") in result.output
    assert "Traceback" not in result.output
