"""Bounds for documents in YAML from others, to be checked before something is made of them.

libyaml's loader nests calls as documents nest, and ends the process where the stack ends. Aliases make much
of few bytes.
"""

from __future__ import annotations

from typing import Any, Final, cast

import yaml

__all__ = ["LOADER", "WITHOUT_TIMES", "AliasError", "NotingLoader", "TooDeepError", "check", "is_larger"]

LOADER: Final[type[Any]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""A safe loader, the fastest there is."""
WITHOUT_TIMES: Final = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
"""The implicit resolvers of a loader that reads times as text, as Kubernetes does."""


class NotingLoader(LOADER):  # type: ignore[misc]
    """Notes the keys that a mapping has twice, of which the last counts."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.repeated: list[tuple[str, int]] = []
        """Keys, and the lines where they are repeated, counted from 1."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    self.repeated.append((key.value, key.start_mark.line + 1))
                seen.add(key.value)
        made: dict[Any, Any] = super().construct_mapping(node, deep)
        return made


class TooDeepError(yaml.MarkedYAMLError):
    """Collections are nested too deep."""


class AliasError(yaml.MarkedYAMLError):
    """There is an alias."""


def check(content: str | bytes, most_levels: int, *, with_aliases: bool = False) -> None:
    """Raises TooDeepError; AliasError unless they are allowed; another yaml.YAMLError if it is not YAML."""
    depth = 0
    for event in yaml.parse(content, LOADER):
        if isinstance(event, yaml.AliasEvent) and not with_aliases:
            raise AliasError(problem="has an alias", problem_mark=_mark(event))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > most_levels:
                told = f"is nested more than {most_levels} levels deep"
                raise TooDeepError(problem=told, problem_mark=_mark(event))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _mark(event: yaml.Event) -> yaml.Mark | None:
    return cast(yaml.Mark | None, event.start_mark)  # libyaml has marks of its own, which are like it


def is_larger(value: Any, most: int) -> bool:
    """Whether there are more values than `most` in a tree of lists and mappings, with its aliases written
    out. Ends also if an alias contains itself."""
    open_ = [value]
    count = 0
    while open_ and count <= most:
        each = open_.pop()
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        count += 1 + len(inner)
        open_ += inner
    return count > most
