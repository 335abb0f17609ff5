"""What judging an object by a schema may cost, told from the schema alone."""

from __future__ import annotations

from typing import Final

from headgate.kubeschema.structural import patterns as texts
from headgate.kubeschema.structural.nodes import LOGIC, nodes
from headgate.kubeschema.structural.shaping import Schema

__all__ = ["is_plain"]

_MAX_PATTERNS: Final = 250
_LARGEST_PATTERN: Final = 50
"""Instructions that a text of the largest object may be matched by, within a second."""
_MAX_CHOICES: Final = 1000
"""In one enum, or fields that one map requires."""


def is_plain(schema: Schema) -> bool:
    """Whether judging an object costs about one look at each of its values.

    Rules (CEL), and schemas that combine others (allOf, anyOf, oneOf, not), have no such bound; long enums
    and many patterns cost more than a look.
    """
    patterns = 0
    for node in nodes(schema):
        found = node.schema
        if "x-kubernetes-validations" in found or "not" in found or any(name in found for name in LOGIC):
            return False
        if isinstance(pattern := found.get("pattern"), str):
            patterns += 1
            if patterns > _MAX_PATTERNS or texts.size(pattern) > _LARGEST_PATTERN:
                return False
        longest = max(len(found.get("enum") or ()), len(found.get("required") or ()))
        if longest > _MAX_CHOICES:
            return False
    return True
