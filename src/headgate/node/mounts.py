"""What a container finds at its mountPaths: a real mount if the machine allows it, or other words.

In a mount namespace of its own, a container sees its volumes where the manifest puts them. Root may create
one, and on most Linux systems every user, in a user namespace. Elsewhere, the directory of the volume takes
the place of mountPath in the command, the arguments and the variables of the container.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath

from headgate.node import environment, pod_spec
from headgate.node.environment import ContainerConfigError
from headgate.node.pod_volumes import Provided

LAUNCHER = Path(__file__).with_name("launcher.py")
_PROBE_S = 30.0


class Mounting(StrEnum):
    """How containers get their volumes; the values are the launcher's."""

    NAMESPACE = "namespace"
    USER_NAMESPACE = "user-namespace"
    SUBSTITUTION = "substitution"

    @property
    def is_real(self) -> bool:
        return self is not Mounting.SUBSTITUTION


@dataclass(frozen=True)
class Mount:
    """A directory or file of this machine, and where the container sees it."""

    source: Path
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Mounts:
    """The mounts of one container; without any, it runs in the namespace of the node."""

    how: Mounting = Mounting.SUBSTITUTION
    mounts: Sequence[Mount] = ()

    def and_file(self, source: Path, target: str, texts: Iterable[str]) -> Mounts:
        """With a file that most programs never use, so that it is no reason for a mount by itself.

        It is one if the container has others, or if a text of the container names it.
        """
        mount = Mount(source, os.path.normpath(target))
        if not self.mounts and not any(target in text for text in texts):
            return self
        return replace(self, mounts=[*self.mounts, mount])

    @property
    def real(self) -> Sequence[Mount]:
        return self.mounts if self.how.is_real else ()

    def options(self) -> list[str]:
        """The arguments for the launcher."""
        if not self.real:
            return []
        words = [f"--{self.how}"]
        for mount in self.real:
            words += ["--mount", str(mount.source), mount.target, "ro" if mount.read_only else "rw"]
        return words

    def on_machine(self, path: str) -> str:
        """Where a path of the container is on this machine."""
        for mount in sorted(self.real, key=lambda each: -len(each.target)):
            below = _below(path, mount.target)
            if below is not None:
                return str(mount.source / below) if below else str(mount.source)
        return path

    def substituted(self, text: str) -> str:
        """The text with mountPaths replaced, if they are no real mounts."""
        if self.how.is_real or not self.mounts:
            return text
        sources = {mount.target: str(mount.source) for mount in self.mounts}
        longest_first = sorted(sources, key=len, reverse=True)
        # A path begins after a character that cannot be part of one, or after the "://" of a URL.
        pattern = rf"(?:(?<![\w.\-/])|(?<=://))({'|'.join(map(re.escape, longest_first))})(?![\w.\-])"
        return re.sub(pattern, lambda match: sources[match[1]], text)


def plan(
    container: pod_spec.Container,
    provided: Mapping[str, Provided],
    variables: Mapping[str, str],
    how: Mounting,
) -> Mounts:
    """The mounts of a container, whose subPaths are created. Raises ContainerConfigError and OSError."""
    mounts = []
    for index, mount in enumerate(container.volume_mounts):
        where = f"volumeMounts[{index}] {mount.name}"
        volume = provided.get(mount.name)
        if volume is None:
            raise ContainerConfigError(f"{where}: the Pod has no such volume")
        target = os.path.normpath(mount.mount_path)
        if not target.startswith("/") or target == "/":
            raise ContainerConfigError(f"{where}: mountPath {mount.mount_path!r} is not an absolute path")
        source = _source(mount, volume, variables, where)
        mounts.append(Mount(source, target, mount.read_only or volume.read_only))
    return Mounts(how, mounts)


async def detect() -> Mounting:
    """The best way that works on this machine, found by trying it."""
    if sys.platform != "linux":
        return Mounting.SUBSTITUTION
    ways = (Mounting.NAMESPACE, Mounting.USER_NAMESPACE)
    for way in ways if os.geteuid() == 0 else ways[1:]:
        if await _works(way):
            return way
    return Mounting.SUBSTITUTION


async def _works(way: Mounting) -> bool:
    """Mounts a directory where there is none, which needs every operation of the launcher."""
    with tempfile.TemporaryDirectory() as directory:
        target = f"/headgate-{os.urandom(8).hex()}/probe"
        mounts = Mounts(way, [Mount(Path(directory), target, read_only=True)])
        words = [sys.executable, "-I", "-S", str(LAUNCHER), *mounts.options(), "--try"]
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        try:
            async with asyncio.timeout(_PROBE_S):
                return await process.wait() == 0
        except TimeoutError:
            process.kill()
            await process.wait()
            return False


def _source(mount: pod_spec.VolumeMount, volume: Provided, variables: Mapping[str, str], where: str) -> Path:
    sub_path = mount.sub_path
    if mount.sub_path_expr:
        sub_path = environment.expand(mount.sub_path_expr, variables)
        if "$(" in sub_path and "$$" not in mount.sub_path_expr:
            raise ContainerConfigError(
                f"{where}: subPathExpr {mount.sub_path_expr!r} has an unknown variable"
            )
    if not sub_path:
        return volume.path
    parts = PurePosixPath(sub_path).parts
    if sub_path.startswith("/") or ".." in parts or "\0" in sub_path:
        raise ContainerConfigError(
            f"{where}: subPath {sub_path!r} must be relative and must not contain '..' or a null byte"
        )
    path = volume.path / sub_path
    # Links in a volume were made by a container, and must not lead out of it.
    if not path.resolve().is_relative_to(volume.path.resolve()):
        raise ContainerConfigError(f"{where}: subPath {sub_path!r} leads out of the volume")
    if not path.exists():
        if volume.is_written:
            raise ContainerConfigError(f"{where}: subPath {sub_path!r} not found in the volume")
        path.mkdir(parents=True, exist_ok=True)
    return path.resolve()


def _below(path: str, target: str) -> str | None:
    """The rest of a path below a mount; None if it is elsewhere."""
    normal = os.path.normpath(path)
    if normal == target:
        return ""
    return normal[len(target) + 1 :] if normal.startswith(f"{target}/") else None
