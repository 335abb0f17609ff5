"""A real Prometheus that scrapes nothing: `promtool` writes its samples, also those of the next minutes."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "control_plane"
STEP_S = 15.0


class RealPrometheus:
    """One on 127.0.0.1 that scrapes nothing."""

    def __init__(self, programs: Mapping[str, str], place: Path, port: int, web: Path | None) -> None:
        self._programs, self._place, self._port, self._web = programs, place, port, web
        self._process: asyncio.subprocess.Process | None = None
        scheme = "https" if web else "http"
        self.url = f"{scheme}://127.0.0.1:{port}"

    async def start(self) -> None:
        config = self._place / "prometheus.yml"
        config.write_text("scrape_configs: []\n")
        words = [
            f"--config.file={config}",
            f"--storage.tsdb.path={self._place / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            *([f"--web.config.file={self._web}"] if self._web else ()),
        ]
        log = self._place / "log"
        with log.open("wb") as file:
            self._process = await asyncio.create_subprocess_exec(
                self._programs["prometheus"], *words, stderr=file
            )
        async with asyncio.timeout(120):
            while b"Server is ready to receive web requests" not in log.read_bytes():
                await asyncio.sleep(0.1)

    def suspend(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self.resume()
            self._process.terminate()
            await self._process.wait()

    def remember(
        self, series: Mapping[str, Callable[[float], float]], *, since_s: float, until_s: float
    ) -> None:
        """Samples of series between two times, in seconds from now; before it is started. The functions get
        the seconds since `since_s`."""
        now = time.time()
        steps = int((until_s - since_s) / STEP_S)
        lines = [
            f"{name} {value(step * STEP_S)} {now + since_s + step * STEP_S:.3f}"
            for name, value in series.items()
            for step in range(steps + 1)
        ]
        file = self._place / "samples.txt"
        file.write_text("\n".join([*lines, "# EOF\n"]))
        words = [self._programs["promtool"], "tsdb", "create-blocks-from", "openmetrics", "-q"]
        subprocess.run([*words, file, self._place / "data"], check=True, capture_output=True)


@pytest.fixture(scope="session")
def programs() -> dict[str, str]:
    """By name; without those of Prometheus, the test is skipped."""
    found = subprocess.run(
        [sys.executable, TOOL, "path-monitoring"], capture_output=True, text=True, check=True
    )
    programs = {Path(line).name: line for line in found.stdout.split()}
    if not programs.keys() >= {"prometheus", "promtool"}:
        pytest.skip("there is no Prometheus: `make monitoring` builds it")
    return programs


@pytest.fixture
async def prometheus_of(
    programs, tmp_path, unused_tcp_port_factory
) -> AsyncIterator[Callable[..., Awaitable[RealPrometheus]]]:
    """Makes servers; `web` is their configuration of TLS."""
    made: list[RealPrometheus] = []

    def make(web: Mapping[str, object] | None = None) -> RealPrometheus:
        place = tmp_path / f"prometheus-{len(made)}"
        place.mkdir()
        file = place / "web.yml"
        if web is not None:
            file.write_text(json.dumps(web))
        made.append(
            RealPrometheus(programs, place, unused_tcp_port_factory(), file if web is not None else None)
        )
        return made[-1]

    yield make
    for each in made:
        await each.stop()
