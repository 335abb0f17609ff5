"""The output of `kubectl get`: lists and events as meta/v1 Tables.

Converts objects of a kind to rows: by the printer columns of its definition or, for Kubernetes' own kinds
with output that JSONPath cannot express, by a function.
"""

from headgate.apiserver.tables.making import IncludeObject, scale_table, table
from headgate.apiserver.tables.values import human_duration, since

__all__ = ["IncludeObject", "human_duration", "scale_table", "since", "table"]
