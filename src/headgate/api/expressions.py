"""Rules in CEL (`x-kubernetes-validations`) that several kinds share, and a short way to write one.

Every API server that serves our definitions enforces them, the embedded one too. An API server estimates the
cost of a rule from the largest object that the schema allows, and rejects a definition that could cost too
much. Therefore lists, maps and texts that a rule reads have limits.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from headgate.kubeschema import duration

__all__ = ["DURATION", "LONGEST_NAME", "MODEL_NAME", "WINDOW", "Validation", "rule"]

Validation = dict[str, str]
Reason = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]

LONGEST_NAME: Final = 256
"""Characters of a model name."""


def rule(
    expression: str, message: str, *, at: str = "", reason: Reason | None = None, told: str = ""
) -> Validation:
    """One rule over `self`.

    `at` is the field that an error is about, as in ".backends"; `told` is an expression that makes a message
    with values. `message` stands in for it if it cannot be evaluated.
    """
    made = {"rule": expression, "message": message}
    if told:
        made["messageExpression"] = told
    if reason:
        made["reason"] = reason
    if at:
        made["fieldPath"] = at
    return made


MODEL_NAME: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        rule(
            r"!self.matches('[\\x00-\\x1f\\x7f-\\x9f\\x{2028}\\x{2029}]')",
            "must not contain control characters",
        )
    ]
}
"""Schema of the `model` of requests, because it is used in keys, log lines and headers. Its length must be
limited."""

DURATION: Final[dict[str, Any]] = {
    **duration.SCHEMA,
    "x-kubernetes-validations": [
        rule("duration(self) == duration(self)", 'must be a duration of at most 2562047h, as in "1m30s"')
    ],
}
"""Schema of a duration: conversion fails if it is too long."""

WINDOW: Final[dict[str, Any]] = {
    **duration.SCHEMA,
    "x-kubernetes-validations": [
        rule(
            "duration(self) >= duration('0s') && duration(self) <= duration('30m')",
            "must be between 0s and 30m",
        )
    ],
}
"""Schema of a duration from 0s to 30m."""
