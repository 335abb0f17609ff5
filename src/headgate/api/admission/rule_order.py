"""Rules of routes compared with each other: which rule can never match because an earlier one takes all.

Rules are tried in order and the first that matches serves, so a rule is dead if some rule before it matches
every request that it would match.
"""

from __future__ import annotations

from collections.abc import Iterable

from headgate.api.admission import string_matches
from headgate.api.admission.field_cursor import FieldCursor

__all__ = ["covering", "is_catch_all"]


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
    """Every path begins with a slash."""
    if not uri.present or string_matches.is_open(uri):
        return True
    if uri["exact"].text is not None:
        return False
    return uri["prefix"].text == "/" or (
        uri["prefix"].text is None and uri["regex"].text in ("/", "^/", "^/.*")
    )
