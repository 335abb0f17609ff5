"""Admission rules beyond schemas: across fields, across versions of an object, and across objects.

Input: an object, its old version, and a view of the others. Output: errors with Kubernetes' messages, which
reject the object, and warnings, which `kubectl` prints: legal, but not what the author probably intends. The
API server runs them on every write, `headgate validate` for a set of files.
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
