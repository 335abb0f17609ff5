"""What `kubectl get` prints: lists and events as meta/v1 Tables.

Given objects of a kind, it hands on their rows: from the printer columns of the kind's definition, or, where
Kubernetes prints of its own kinds what no JSONPath can say, from a function for the row.
"""

from headgate.apiserver.tables.making import IncludeObject, scale_table, table
from headgate.apiserver.tables.values import human_duration, since

__all__ = ["IncludeObject", "human_duration", "scale_table", "since", "table"]
