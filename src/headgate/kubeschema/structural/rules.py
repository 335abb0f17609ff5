"""CEL rules of a schema (`x-kubernetes-validations`): evaluated for an object, or checked when a CRD
arrives."""

import base64
import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

from headgate.kubeschema import cel, duration
from headgate.kubeschema.structural.errors import OMITTED, FieldError, Findings, Path, keyed
from headgate.kubeschema.structural.nodes import Node
from headgate.kubeschema.structural.shaping import Schema
from headgate.kubeschema.structural.walk import RuleSite

__all__ = ["evaluate", "rule_faults"]

_RULE_STEPS: Final = 3_000_000  # about half a second
_TOTAL_STEPS: Final = 10_000_000
_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
_REASONS = frozenset(
    {"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"}
)
_LINE_BREAK = re.compile(r"[\n\r]")
_FIELD_PATH_STEP = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)+)'\]")
_NOTHING: Schema = {}

# Field names that CEL cannot spell are escaped, as Kubernetes documents it.
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NEEDS_ESCAPE = re.compile(r"__|[.\-/]")
_KEYWORDS = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"}
    | {"import", "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)


Announce: TypeAlias = Callable[[Path, str], None]
"""Takes the path of a value and the rule that is about to be evaluated for it."""


def _unannounced(path: Path, rule: str) -> None:
    pass


announce: Announce = _unannounced
"""Set by a process that may be killed while a rule runs, so that others learn which one it was."""


class _Budget:
    """The cost limit of all rules for one object."""

    def __init__(self) -> None:
        self._left = _TOTAL_STEPS

    def spend(self, steps: int) -> None:
        if steps > _RULE_STEPS:
            told = f"call cost exceeds limit: about {steps} steps of at most {_RULE_STEPS} a rule"
            raise cel.CelError(told)
        self._left -= steps
        if self._left < 0:
            raise _OutOfBudgetError


class _OutOfBudgetError(Exception):
    """The rules of an object have exhausted the budget, so the rest is not evaluated."""


def evaluate(sites: Iterable[RuleSite], findings: Findings) -> None:
    """Evaluate the rules of every site; adds failed and undecidable rules to `findings`."""
    budget = _Budget()
    for site in sites:
        try:
            for rule in site.schema["x-kubernetes-validations"]:
                _run(rule, site, budget, findings)
        except _OutOfBudgetError:
            findings.add("FieldValueForbidden", keyed(site.path), _OUT_OF_BUDGET)
            return


def _run(rule: Schema, site: RuleSite, budget: _Budget, findings: Findings) -> None:
    try:
        announce(site.path, rule["rule"])
        expression = cel.compiled(rule["rule"])
        if site.transitions_only and not expression.is_transition:
            return
        if expression.is_transition and site.old is cel.MISSING and not rule.get("optionalOldSelf"):
            return
        result = _result(expression, rule, site, budget)
    except cel.CelError as problem:
        detail = f"{problem} evaluating rule: {rule.get('message') or rule['rule']}"
        findings.add("FieldValueInvalid", keyed(site.path), detail, _scalar(site.value))
        return
    if result is not True:
        findings.extend((_refusal(rule, site, result, budget),))


def _result(expression: cel.Expression, rule: Schema, site: RuleSite, budget: _Budget) -> object:
    value = _as_cel(site.schema, site.value, expression.fields)
    old = site.old
    if old is not cel.MISSING:
        old = _as_cel(site.schema, old, expression.fields)
    budget.spend(expression.steps(value))
    return expression.evaluate(value, old, optional_old=rule.get("optionalOldSelf") is True)


def _refusal(rule: Schema, site: RuleSite, result: object, budget: _Budget) -> FieldError:
    reason = rule.get("reason", "FieldValueInvalid")
    path = site.path
    for name, quoted_name in _FIELD_PATH_STEP.findall(rule.get("fieldPath", "")):
        path = (path, name or quoted_name)
    if result is False:
        detail = _message(rule, site, budget)
    else:
        detail = f"rule must evaluate to a bool, not {result!r:.100}: {rule['rule']}"
    return FieldError(
        reason if reason in _REASONS else "FieldValueInvalid", keyed(path), detail, _scalar(site.value)
    )


def _message(rule: Schema, site: RuleSite, budget: _Budget) -> str:
    if source := rule.get("messageExpression"):
        try:
            message = _result(cel.compiled(source), rule, site, budget)
        except cel.CelError:
            message = None  # Kubernetes falls back to the plain message too
        if isinstance(message, str) and message.strip() and "\n" not in message:
            return message.strip()
    return rule.get("message") or f"failed rule: {rule['rule']}"


def _scalar(value: object) -> object:
    """The value for an error message; objects and lists are left out, as they would bury the message."""
    return OMITTED if isinstance(value, dict | list) else value


# --- values as rules see them ---------------------------------------------------------------------------


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _timedelta(text: str) -> datetime.timedelta:
    return datetime.timedelta(microseconds=duration.parse_ns(text) / 1000)


_BY_FORMAT: dict[str, Callable[[str], object]] = {
    "byte": _bytes,
    "date-time": datetime.datetime.fromisoformat,
    "duration": _timedelta,
}


def _as_cel(schema: Schema, value: Any, fields: frozenset[str] | None = None) -> Any:
    """The value with CEL's types (double, timestamp, duration, bytes) and names that CEL can spell."""
    if not schema:  # there are no types for what the schema does not describe
        return value
    if isinstance(value, dict):
        return _map_as_cel(schema, value, fields)
    if isinstance(value, list):
        items = schema.get("items") or _NOTHING
        return [_as_cel(items, item) for item in value]
    if type(value) is int and schema.get("type") == "number":
        return float(value)
    if isinstance(value, float) and schema.get("type") == "integer" and value.is_integer():
        return int(value)
    if isinstance(value, str) and (convert := _BY_FORMAT.get(schema.get("format", ""))):
        try:
            return convert(value)
        except ValueError:
            return value
    return value


def _map_as_cel(schema: Schema, value: dict[str, Any], fields: frozenset[str] | None) -> dict[str, Any]:
    properties = schema.get("properties") or _NOTHING
    additional = schema.get("additionalProperties")
    other = additional if isinstance(additional, dict) else _NOTHING
    converted = {}
    for key, item in value.items():
        name = _escaped(key) if key in properties else key
        if fields is None or name in fields:
            converted[name] = _as_cel(properties.get(key, other), item)
    return converted


def _escaped(name: str) -> str:
    if name in _KEYWORDS:
        return f"__{name}__"
    return _NEEDS_ESCAPE.sub(lambda match: _ESCAPES[match.group()], name)


# --- checks of rules ------------------------------------------------------------------------------------


def rule_faults(node: Node) -> list[FieldError]:
    """The errors in the rules of one schema, each at its own field."""
    faults: list[FieldError] = []
    path: Path = (node.path, "x-kubernetes-validations")
    for index, rule in enumerate(node.schema.get("x-kubernetes-validations") or ()):
        where: Path = (path, index)
        if not isinstance(rule, dict) or not str(rule.get("rule", "")).strip():
            faults.append(FieldError("FieldValueRequired", keyed((where, "rule")), "rule is not specified"))
            continue
        faults.extend(_message_faults(rule, where))
        faults.extend(_source_faults(rule, where, node.without_past))
        if "reason" in rule and rule["reason"] not in _REASONS:
            detail = "supported values: " + ", ".join(f'"{reason}"' for reason in sorted(_REASONS))
            faults.append(
                FieldError("FieldValueNotSupported", keyed((where, "reason")), detail, rule["reason"])
            )
        if (field := rule.get("fieldPath")) and not _leads_somewhere(str(field), node.schema):
            detail = "fieldPath must be a valid path"
            faults.append(FieldError("FieldValueInvalid", keyed((where, "fieldPath")), detail, field))
    return faults


def _message_faults(rule: Schema, where: Path) -> Iterator[FieldError]:
    message = str(rule.get("message") or "")
    field = keyed((where, "message"))
    if message and not message.strip():
        yield FieldError("FieldValueInvalid", field, "message must be non-empty if specified", message)
    elif _LINE_BREAK.search(message.strip()):
        yield FieldError("FieldValueInvalid", field, "message must not contain line breaks", message)
    elif not message and _LINE_BREAK.search(str(rule["rule"]).strip()):
        yield FieldError(
            "FieldValueRequired", field, "message must be specified if rule contains line breaks"
        )
    expression = rule.get("messageExpression")
    if expression and not str(expression).strip():
        detail = "messageExpression must be non-empty if specified"
        yield FieldError("FieldValueRequired", keyed((where, "messageExpression")), detail)


def _source_faults(rule: Schema, where: Path, without_past: Path) -> Iterator[FieldError]:
    for field in ("rule", "messageExpression"):
        if rule.get(field):
            announce((where, field), str(rule[field]))
            yield from _compile_faults(rule[field], (where, field))
    try:
        is_transition = cel.compiled(str(rule["rule"])).is_transition
    except cel.CelError:
        return
    if is_transition and without_past is not None:
        detail = (
            f"oldSelf cannot be used on the uncorrelatable portion of the schema within {keyed(without_past)}"
        )
        yield FieldError("FieldValueInvalid", keyed((where, "rule")), detail, rule["rule"])
    if not is_transition and rule.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        yield FieldError(
            "FieldValueInvalid", keyed((where, "optionalOldSelf")), detail, rule["optionalOldSelf"]
        )


def _leads_somewhere(field_path: str, schema: Schema) -> bool:
    """Whether a fieldPath names a field of the schema, step by step."""
    position = 0
    while position < len(field_path):
        step = _FIELD_PATH_STEP.match(field_path, position)
        if step is None:
            return False
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        name = step[1] or step[2]
        if isinstance(properties, dict) and isinstance(properties.get(name), dict):
            schema = properties[name]
        elif step[2] and isinstance(additional, dict):
            schema = additional
        else:
            return False
        position = step.end()
    return True


def _compile_faults(source: object, path: Path) -> list[FieldError]:
    try:
        cel.compiled(str(source))
    except cel.CelError as problem:
        return [FieldError("FieldValueInvalid", keyed(path), f"compilation failed: {problem}", source)]
    return []
