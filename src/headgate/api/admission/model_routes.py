"""ModelRoute: errors beyond its schema, and warnings."""

from __future__ import annotations

import re

from headgate.api.admission import competing_routes, references, string_matches
from headgate.api.admission.annotations import check_fallbacks, warn_of_misspelled_fallbacks
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.index_keys import NAMED, IndexKey
from headgate.api.admission.references import View
from headgate.api.kthena_networking import MAX_HEADERS
from headgate.api.meta import ObjectKey
from headgate.kubeschema import regex

__all__ = ["check", "check_match"]

GROUP = "networking.volcano.sh"

_HEADER_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_HOST_PORT = re.compile(r"(\[[^\]\s]+\]|[^:\s\[\]]+):[0-9]{1,5}")

MIN_PROMPT_TOKENS = 100
"""Few prompts are shorter, once a chat template is applied."""


def check(route: FieldCursor, old: FieldCursor | None, others: View, found: Findings) -> None:
    """All rules for a ModelRoute."""
    spec = route["spec"]
    _check_names(spec, found)
    _check_fallbacks(route, others, found)
    if spec["rules"].value == []:
        found.warn(spec["rules"], "is empty: every request for this route is answered with 404")
    budget = regex.Budget()
    for rule in spec["rules"].items():
        check_match(rule["modelMatch"], budget, found)
        _check_model_condition(spec, rule, found)
        _check_targets(route, rule["targetModels"], others, found)
    if budget.is_exceeded:
        return  # the comparisons below would compile expressions as well
    _check_order(spec["rules"], found)
    _check_limit(spec["rateLimit"], found)
    competing_routes.check(route, others, found)


def _check_names(spec: FieldCursor, found: Findings) -> None:
    name = spec["modelName"]
    for each in (name, *spec["loraAdapters"].items()):
        if each.text and each.text != each.text.strip():
            found.warn(each, f"{each.text!r} begins or ends with a space, and requests must do so too")
    seen: dict[str, FieldCursor] = {}
    for adapter in spec["loraAdapters"].items():
        if adapter.text is not None and adapter.text in seen:
            found.warn(adapter, f'"{adapter.text}" is listed already, as {seen[adapter.text].label}')
        elif adapter.text is not None and adapter.text == name.text:
            found.warn(adapter, f'"{adapter.text}" is the modelName already: listing it has no effect')
        elif adapter.text is not None:
            seen[adapter.text] = adapter


def _check_fallbacks(route: FieldCursor, others: View, found: Findings) -> None:
    spec, namespace = route["spec"], references.key_of(route).namespace
    own = {spec["modelName"].text, *(each.text for each in spec["loraAdapters"].items())}

    def exists(pool: str) -> bool:
        return others.get(GROUP, "ModelServer", ObjectKey(namespace, pool)) is not None

    names = {name for name in own if name}
    annotations = route.at("metadata.annotations")
    warn_of_misspelled_fallbacks("ModelRoutes", annotations, found)
    check_fallbacks(annotations, names, exists, others, found)


# -- rules


def check_match(match: FieldCursor, budget: regex.Budget, found: Findings) -> None:
    """The conditions of a ModelMatch, which Models have as well."""
    seen: dict[str, str] = {}
    headers = match["headers"]
    if len(headers.mapping) > MAX_HEADERS:
        return  # which the schema rejects
    for name, condition in headers.entries():
        is_compiled = string_matches.check(condition, budget, found)
        if not _HEADER_NAME.fullmatch(name):
            result = (
                "always matches" if is_compiled and string_matches.fits(condition, "") else "can never match"
            )
            found.warn(condition, f"{result}: {name!r} is not the name of a header, so it is always empty")
        elif name.lower() in seen:
            found.warn(condition, f"is the same header as {seen[name.lower()]!r}: both conditions must hold")
        seen.setdefault(name.lower(), name)
    uri = match["uri"]
    string_matches.check(uri, budget, found)
    for field in ("exact", "prefix"):
        path = uri[field].text
        if path and not path.startswith("/"):
            found.warn(uri[field], f'can never match: {path!r} does not begin with "/", as every path does')
        elif path and "?" in path:
            found.warn(uri[field], "can never match: only the path is compared, without the query behind ?")


def _check_model_condition(spec: FieldCursor, rule: FieldCursor, found: Findings) -> None:
    condition = rule.at("modelMatch.body.model")
    listed_names = [spec["modelName"].text, *(adapter.text for adapter in spec["loraAdapters"].items())]
    known = list(dict.fromkeys(name for name in listed_names if name))
    if condition.text is not None and known and condition.text not in known:
        listed = ", ".join(f'"{name}"' for name in known[:4]) + (", ..." if len(known) > 4 else "")
        found.warn(
            condition, f'can never match "{condition.text}": this route gets only requests for {listed}'
        )


def _check_order(rules: FieldCursor, found: Findings) -> None:
    earlier: list[FieldCursor] = []
    seen: dict[str, FieldCursor] = {}
    for rule in rules.items():
        if (cover := competing_routes.covering(earlier, rule)) is not None:
            every = (
                "every request"
                if competing_routes.is_catch_all(cover)
                else "every request that this one would"
            )
            found.warn(rule, f"can never match: {_called(cover)} comes first and matches {every}")
        earlier.append(rule)
        if (name := rule["name"].text) and name in seen:
            found.warn(rule["name"], f'"{name}" is the name of {seen[name].label} as well; logs mix them up')
        elif name:
            seen[name] = rule


def _called(rule: FieldCursor) -> str:
    name = rule["name"].text
    return f'{rule.label} ("{name}")' if name else rule.label


# -- targets


def _check_targets(route: FieldCursor, targets: FieldCursor, others: View, found: Findings) -> None:
    seen: dict[str, FieldCursor] = {}
    for target in targets.items():
        name = target["modelServerName"]
        if not name.text:
            continue
        if name.text in seen:
            found.warn(name, f'"{name.text}" is {seen[name.text].label} already; their weights add up')
        else:
            seen[name.text] = target
            _check_server(route, name, others, found)
    weights = [target["weight"].integer for target in targets.items()]
    if weights and all(weight == 0 for weight in weights):
        told = "the only weight is 0" if len(weights) == 1 else "every weight is 0"
        told += ": requests that match this rule go to the next route for the model, if any"
        found.warn(targets, told)


def _check_server(route: FieldCursor, name: FieldCursor, others: View, found: Findings) -> None:
    key = ObjectKey(references.key_of(route).namespace, name.text or "")
    if others.get(GROUP, "ModelServer", key) is not None:
        return
    told = f"there is no ModelServer {key}{others.among}; requests for it fail until there is"
    for elsewhere in others.filed(IndexKey(NAMED, ("ModelServer", key.name)))[:1]:
        told = f"there is no ModelServer {key}, but {elsewhere.key}: a route reaches only its own namespace"
    found.warn(name, told)


# -- limits


def _check_limit(limit: FieldCursor, found: Findings) -> None:
    if not isinstance(limit.value, dict):
        return
    if not limit["inputTokensPerUnit"].present and not limit["outputTokensPerUnit"].present:
        found.warn(limit, "limits nothing: set inputTokensPerUnit or outputTokensPerUnit")
    prompt = limit["inputTokensPerUnit"]
    if prompt.integer is not None and 0 < prompt.integer < MIN_PROMPT_TOKENS:
        told = f"is less than most prompts have: one of more than {prompt.integer} tokens is always refused"
        found.warn(prompt, told)
    shared = limit["global"]
    if shared.value == {}:
        found.warn(shared, "has no effect without redis.address: each gateway counts for itself")
    address = shared.at("redis.address")
    if address.text is not None and not _HOST_PORT.fullmatch(address.text):
        found.warn(address, f'"{address.text}" is not host:port, as in "redis.default.svc:6379"')
