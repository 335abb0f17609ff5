"""Forms of kinds that other versions of Kthena, GIE and WVA have and Headgate does not serve, as tables.

Input: an object in such a form, as a plain dict. Output: the objects of Headgate's kinds that mean the same,
every field that was renamed or set, and every field that has no counterpart, with what happens instead. Each
dialect has a file of tables; `converting` applies them, without any knowledge of a dialect.
"""

from collections.abc import Mapping
from typing import Final

from headgate.api.forms import gie, kthena, wva
from headgate.api.forms.converting import Change, Conversion, Difference, convert, remarks
from headgate.api.forms.tables import Field, Form, Output, Remark, Setting, Unserved

FORMS: Final[Mapping[tuple[str, str], Form]] = {
    (api_version, form.kind): form
    for form in (*kthena.FORMS, *gie.FORMS, *wva.FORMS)
    for api_version in form.api_versions
}
"""By apiVersion and kind."""

UNSERVED: Final[Mapping[tuple[str, str], Unserved]] = {
    (api_version, kind.kind): kind
    for kind in (*kthena.UNSERVED, *gie.UNSERVED, *wva.UNSERVED)
    for api_version in kind.api_versions
}
"""Kinds that are not converted, by apiVersion and kind."""

REMARKS: Final[tuple[Remark, ...]] = (*kthena.REMARKS, *gie.REMARKS)
"""Fields of Headgate's kinds that do not have the effect that they have in their own project."""

__all__ = [
    "FORMS",
    "REMARKS",
    "UNSERVED",
    "Change",
    "Conversion",
    "Difference",
    "Field",
    "Form",
    "Output",
    "Remark",
    "Setting",
    "Unserved",
    "convert",
    "remarks",
]
