"""Starts the containers of one Pod as processes: environment, command, mounts, log."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headgate import api
from headgate.node import (
    downward,
    environment,
    mounts,
    pod_spec,
    pod_volumes,
    processes,
    references,
    registration,
)
from headgate.node.environment import ContainerConfigError
from headgate.node.pod_context import Placement, Tools

Warn = Callable[[str, str], None]
"""Called with the reason and the message of an event."""


@dataclass(frozen=True)
class Program:
    """What a container runs, and where."""

    command: list[str]
    variables: Mapping[str, str]
    working_dir: str
    mounts: mounts.Mounts


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
            self._tools.client.server if self._spec.has_account() else "",
        )

    async def start(self, name: str, run: int) -> processes.Process:
        """Raises ContainerConfigError, NoCommandError, StartError and OSError."""
        container = self.container(name)
        program = await self.program(container)
        metadata = self._current().metadata
        directory = self._tools.logs.pod(metadata.namespace, metadata.name, metadata.uid) / name
        writer = self._tools.logs.open_run(directory, run)
        return await self._tools.runner.start(
            program.command,
            program.variables,
            program.working_dir,
            writer,
            f"{metadata.key}/{name}",
            program.mounts,
        )

    async def program(self, container: pod_spec.Container) -> Program:
        """What a container runs now. Raises ContainerConfigError, NoCommandError and OSError."""
        given = await self._environment(container)
        command = environment.command_line(container, given.variables, self._tools.images)
        plan = mounts.plan(container, self.volumes.provided, given.variables, self._tools.mounting)
        own = {name: plan.substituted(value) for name, value in given.own.items()}
        return Program(
            [plan.substituted(word) for word in command],
            {**given.inherited, **own},
            plan.substituted(container.working_dir),
            plan,
        )

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
        result = environment.environment(
            container, self.identity(), os.environ, found, program.env if program else {}
        )
        for source, keys in result.skipped.items():
            told = f"keys [{', '.join(keys)}] of {source} are no names of variables and were skipped"
            self._warn("InvalidEnvironmentVariableNames", f"container {container.name}: {told}")
        return result
