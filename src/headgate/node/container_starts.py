"""Starts the containers of one Pod as processes: environment, command, mounts, log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from headgate import api
from headgate.node import (
    downward,
    environment,
    last_words,
    mounts,
    pod_spec,
    pod_volumes,
    prober,
    processes,
    references,
    registration,
)
from headgate.node.environment import ContainerConfigError
from headgate.node.pod_context import Placement, Tools

_OUTPUT_BYTES = 1024
"""How much of a command's output is kept, for events."""

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where programs expect the token of their account; in a cluster, every Pod has this mount."""

Warn = Callable[[str, str], None]
"""Called with the reason and the message of an event."""


class _Output:
    """The beginning of a command's output."""

    def __init__(self) -> None:
        self._kept = b""

    @property
    def text(self) -> str:
        return self._kept.decode(errors="replace").strip()

    def write(self, data: bytes, wall_s: float) -> None:
        self._kept = (self._kept + data)[:_OUTPUT_BYTES]

    def close(self, wall_s: float) -> None:
        pass


class ContainerStarts:
    """`current` returns the newest state of the Pod."""

    def __init__(
        self,
        current: Callable[[], api.Pod],
        spec: pod_spec.PodSpec,
        placement: Placement,
        tools: Tools,
        warn: Warn,
    ) -> None:
        self._current = current
        self._spec = spec
        self._placement = placement
        self._tools = tools
        self._warn = warn
        self._programs: dict[str, processes.Program] = {}
        """Of the newest runs: commands run in the same environment."""
        self._messages: dict[str, Path] = {}
        """Files for the termination messages of the newest runs."""
        self.volumes = pod_volumes.PodVolumes(spec, tools.client, tools.directories, self.identity)

    def identity(self) -> downward.PodIdentity:
        node = self._tools.identity
        return downward.PodIdentity(
            self._current(),
            node.name,
            self._placement.pod_ip,
            node.host_ip,
            self._placement.port,
            registration.capacity(node),
        )

    async def start(self, name: str, run: int) -> processes.Process:
        """Raises ContainerConfigError, NoCommandError, StartError and OSError."""
        container = self.container(name)
        program = await self.program(container)
        metadata = self._current().metadata
        directory = self._tools.logs.pod(metadata.namespace, metadata.name, metadata.uid) / name
        writer = self._tools.logs.open_run(directory, run)
        self._programs[name] = program
        return await self._tools.runner.start(program, writer, f"{metadata.key}/{name}")

    def last_words(self, name: str, run: int, *, failed: bool) -> str:
        """The termination message of a run that has ended."""
        container, metadata = self.container(name), self._current().metadata
        message = last_words.of_file(self._messages[name]) if name in self._messages else ""
        if message or not failed or container.termination_message_policy == "File":
            return message
        directory = self._tools.logs.pod(metadata.namespace, metadata.name, metadata.uid) / name
        return last_words.of_log(self._tools.logs.run(directory, run).current)

    async def execute(self, name: str, command: Sequence[str], limit_s: float) -> prober.Answer:
        """Run a command as in a running container; healthy if it exits with 0 in time."""
        output = _Output()
        try:
            process = await self._tools.runner.start(self._beside(name, command), output, self._command(name))
            async with asyncio.timeout(limit_s):
                ended = await process.wait()
        except TimeoutError:
            return prober.Answer(False, f"the command did not end within {limit_s:g} s")
        except (processes.StartError, OSError, IndexError) as error:
            return prober.Answer(False, f"the command cannot run: {error}")
        detail = f"the command exited with {ended.code}"
        return prober.Answer(ended.code == 0, f"{detail}: {output.text}" if output.text else detail)

    async def start_command(
        self, name: str, command: Sequence[str], stdio: processes.Stdio
    ) -> processes.Process:
        """Start a command as in a running container. Raises StartError."""
        return await self._tools.runner.start_with(self._beside(name, command), stdio, self._command(name))

    def _beside(self, name: str, command: Sequence[str]) -> processes.Program:
        """A command that finds what the newest run of a container does."""
        program = self._programs[name]
        return replace(program, command=[program.mounts.substituted(word) for word in command])

    def _command(self, name: str) -> str:
        return f"a command of {self._current().metadata.key}/{name}"

    async def program(self, container: pod_spec.Container) -> processes.Program:
        """What a container runs now. Raises ContainerConfigError, NoCommandError and OSError."""
        given = await self._environment(container)
        command = environment.command_line(container, given.variables, self._tools.images)
        plan = self._mounts(container, given, command)
        own = {name: plan.substituted(value) for name, value in given.own.items()}
        return processes.Program(
            [plan.substituted(word) for word in command],
            {**given.inherited, **own},
            plan.substituted(container.working_dir),
            plan,
        )

    def _api_server(self, container: pod_spec.Container) -> Mapping[str, str]:
        """Where a program with an account finds the API server: as the node does, since the addresses of
        Services lead nowhere without a proxy for them."""
        if not any(each.mount_path == _ACCOUNT for each in container.volume_mounts):
            return {}
        server = urlsplit(self._tools.client.server)
        port = server.port or (443 if server.scheme == "https" else 80)
        return {"KUBERNETES_SERVICE_HOST": server.hostname or "", "KUBERNETES_SERVICE_PORT": str(port)}

    def _mounts(
        self, container: pod_spec.Container, given: environment.Environment, command: Sequence[str]
    ) -> mounts.Mounts:
        """Raises ContainerConfigError and OSError."""
        plan = mounts.plan(container, self.volumes.provided, given.variables, self._tools.mounting)
        path = container.termination_message_path
        if not path.startswith("/") or any(each.target == path for each in plan.mounts):
            return plan
        file = self._tools.directories.message_file(self._current().metadata.uid, container.name)
        self._messages[container.name] = file
        texts = [*command, *given.own.values()]
        return plan.and_file(file, path, [path] if path != pod_spec.DEFAULT_MESSAGE_PATH else texts)

    def container(self, name: str) -> pod_spec.Container:
        return next(each for each in self._spec.every_container() if each.name == name)

    async def _environment(self, container: pod_spec.Container) -> environment.Environment:
        """Raises ContainerConfigError."""
        namespace = self._current().metadata.namespace
        wanted = environment.references(container)
        try:
            found = await references.read(self._tools.client, namespace, wanted)
        except references.UnreadableError as error:
            raise ContainerConfigError(str(error)) from error
        program = self._tools.images.find(container.image)
        defaults = {**(program.env if program else {}), **self._api_server(container)}
        result = environment.environment(container, self.identity(), os.environ, found, defaults)
        for source, keys in result.skipped.items():
            told = f"keys [{', '.join(keys)}] of {source} are no names of variables and were skipped"
            self._warn("InvalidEnvironmentVariableNames", f"container {container.name}: {told}")
        return result
