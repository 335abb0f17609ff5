"""Where a value is, as a chain of steps that becomes text only if there is an error to report."""

from typing import TypeAlias

__all__ = ["MapKey", "Path", "dotted", "keyed"]


class MapKey(str):
    """A key of a map (under additionalProperties), which Kubernetes prints in two ways."""

    __slots__ = ()


Path: TypeAlias = "tuple[Path, str | int] | None"
"""The path of the parent and the last step: a property, a MapKey or an index; None is the object itself."""


def dotted(path: Path) -> str:
    """As schema errors print it: spec.modelMatch.headers.x-user.exact."""
    return _render(path, brackets=False)


def keyed(path: Path) -> str:
    """As rules and list types print it: spec.modelMatch.headers[x-user].exact."""
    return _render(path, brackets=True)


def _render(path: Path, *, brackets: bool) -> str:
    steps: list[str] = []
    while path is not None:
        path, step = path
        if isinstance(step, int) or (brackets and isinstance(step, MapKey)):
            steps.append(f"[{step}]")
        else:
            steps.append(f".{step}")
    return "".join(reversed(steps)).removeprefix(".")
