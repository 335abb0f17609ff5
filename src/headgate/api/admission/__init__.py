"""Admission beyond one field: what a schema cannot say about an object, and what its author should know.

Decides by rules across fields, across versions of an object, and across objects. It is given an object, the
one before it, and a view of the others; it hands on errors in the words of Kubernetes, which refuse the
object, and warnings, which `kubectl` prints: legal, but it will not do what its author thinks. The API
server asks on every write, `headgate validate` for a set of files.
"""

from headgate.api.admission.findings import MAX_WARNINGS, Findings, merged
from headgate.api.admission.index_keys import INDEXED, IndexKey
from headgate.api.admission.raw_manifest import errors as errors_of_written
from headgate.api.admission.raw_manifest import warnings as warnings_of_written
from headgate.api.admission.references import MANY, NOBODY, Filed, Gathered, Index, View
from headgate.api.admission.rules import KINDS, check, default
from headgate.api.admission.selectors import SAME_PODS

__all__ = [
    "INDEXED",
    "KINDS",
    "MANY",
    "MAX_WARNINGS",
    "NOBODY",
    "SAME_PODS",
    "Filed",
    "Findings",
    "Gathered",
    "Index",
    "IndexKey",
    "View",
    "check",
    "default",
    "errors_of_written",
    "merged",
    "warnings_of_written",
]
