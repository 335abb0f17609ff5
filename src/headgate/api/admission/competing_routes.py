"""Other objects for the model names of a ModelRoute: which one gets the requests."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.api.admission import index_keys, references, string_matches
from headgate.api.admission.field_cursor import FieldCursor
from headgate.api.admission.findings import Findings
from headgate.api.admission.index_keys import IndexKey
from headgate.api.admission.references import Filed, View

__all__ = ["check", "covering", "is_catch_all"]

_TOLD = 4
"""Others named in the warning about a name."""


def check(route: FieldCursor, others: View, found: Findings) -> None:
    """Warn of every name that the route shares with another object.

    A name that is the model name of any object is not looked up among adapters.
    """
    name = route.at("spec.modelName")
    if name.text:
        _check_model_name(route, name, others, found)
    for adapter in route.at("spec.loraAdapters").items():
        if adapter.text and adapter.text != name.text:
            _check_adapter(route, adapter, others, found)


def _check_model_name(route: FieldCursor, name: FieldCursor, others: View, found: Findings) -> None:
    for other in references.others_than(route, _claims(index_keys.MODEL, name, others))[:_TOLD]:
        found.warn(name, _who_gets_what(route, name.text or "", other, others))
    for other in references.others_than(route, _claims(index_keys.ADAPTER, name, others))[:1]:
        told = f'"{name.text}" is a LoRA adapter of {other}: requests for it come here instead from now on'
        found.warn(name, told)


def _check_adapter(route: FieldCursor, adapter: FieldCursor, others: View, found: Findings) -> None:
    models = references.others_than(route, _claims(index_keys.MODEL, adapter, others))
    if models:
        found.warn(adapter, f'"{adapter.text}" is the model name of {models[0]}, which gets its requests')
        return
    for other in references.others_than(route, _claims(index_keys.ADAPTER, adapter, others))[:1]:
        first = "this route is older and" if references.is_before(route, other) else "that one"
        found.warn(adapter, f'"{adapter.text}" is an adapter of {other} as well; {first} is asked first')


def _claims(about: str, name: FieldCursor, others: View) -> list[Filed]:
    return list(others.filed(IndexKey(about, (name.text or "",))))


def _who_gets_what(route: FieldCursor, name: str, other: Filed, others: View) -> str:
    if other.kind == "InferenceModel":
        return f'{other} is for "{name}" too; this ModelRoute goes first'
    if other.kind == "Model":
        return f'{other} serves "{name}" too, by a ModelRoute of its own'
    if references.is_before(route, other):
        return f'{other} is for "{name}" too and younger: it gets what no rule here matches'
    if _takes_all(other, others):
        return f'{other} is for "{name}" too, older, and takes every request: this route gets none'
    return f'{other} is for "{name}" too and older: this route gets what no rule there matches'


def _takes_all(other: Filed, others: View) -> bool:
    rules = FieldCursor(others.get(other.group, other.kind, other.key)).at("spec.rules")
    return any(is_catch_all(rule) and _has_weight(rule) for rule in rules.items())


def _has_weight(rule: FieldCursor) -> bool:
    """Whether any weight is not 0. Otherwise, the rule passes requests on to the next route."""
    return any(target["weight"].integer != 0 for target in rule["targetModels"].items())


# Comparison of rules: which rule can never match because an earlier one takes all its requests.
#
# Rules are tried in order and the first match serves, so a rule is dead if some rule before it matches every
# request that it would match.
def covering(earlier: Iterable[FieldCursor], rule: FieldCursor) -> FieldCursor | None:
    """The first of the earlier rules that leaves nothing for this one."""
    return next((each for each in earlier if _covers(each["modelMatch"], rule["modelMatch"])), None)


def is_catch_all(rule: FieldCursor) -> bool:
    """Whether the rule matches every request."""
    match = rule["modelMatch"]
    return (
        match.at("body.model").text is None
        and _every_path(match["uri"])
        and all(string_matches.is_open(header) for _, header in match["headers"].entries())
    )


def _covers(broad: FieldCursor, narrow: FieldCursor) -> bool:
    model = broad.at("body.model").text
    if model is not None and model != narrow.at("body.model").text:
        return False
    uri = broad["uri"]
    if not _every_path(uri) and not (narrow["uri"].present and string_matches.covers(uri, narrow["uri"])):
        return False
    wanted = {name.lower(): match for name, match in narrow["headers"].entries()}
    return all(
        string_matches.is_open(match)
        or (name.lower() in wanted and string_matches.covers(match, wanted[name.lower()]))
        for name, match in broad["headers"].entries()
    )


def _every_path(uri: FieldCursor) -> bool:
    """Whether the condition matches every path. Paths begin with a slash."""
    if not uri.present or string_matches.is_open(uri):
        return True
    if uri["exact"].text is not None:
        return False
    return uri["prefix"].text == "/" or (
        uri["prefix"].text is None and uri["regex"].text in ("/", "^/", "^/.*")
    )
