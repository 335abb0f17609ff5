"""Directories of claims beside the embedded API server, which has no claims of its own.

Each claim is a directory below the node's state. A link in its place makes it any directory of the machine.
"""

from __future__ import annotations

from pathlib import Path


class ClaimTakenError(Exception):
    """The claim has a directory of its own, which may have data; the message names it and the fix."""


def path_of(state: Path, namespace: str, name: str) -> Path:
    """The directory of a claim, below the state directory of a node."""
    return state / "claims" / f"{namespace}_{name}"


def link(state: Path, namespace: str, name: str, directory: Path) -> None:
    """Let a claim be this directory. Raises ClaimTakenError, and OSError."""
    place = path_of(state, namespace, name)
    if place.is_symlink():
        if place.readlink() == directory:
            return
        place.unlink()
    elif place.exists():
        raise ClaimTakenError(
            f"claim {namespace}/{name} has a directory of its own, {place}: move it away, so that "
            f"{directory} can stand for the claim"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(directory, target_is_directory=True)
