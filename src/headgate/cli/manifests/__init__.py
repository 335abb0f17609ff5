"""Read manifests from files, directories and standard input into objects with the position of every value.

Input is untrusted text. The results are objects as an API server would see them, each with a tree of
positions, and every syntax problem with its line and column.
"""

from headgate.cli.manifests.loading import ManifestErrors, load
from headgate.cli.manifests.nodes import (
    Entry,
    Mapping,
    Node,
    Place,
    Position,
    Scalar,
    Sequence,
    Span,
    place_of,
    plain,
)
from headgate.cli.manifests.reading import Manifest, Problem, Reading, read, read_document, read_text

__all__ = [
    "Entry",
    "Manifest",
    "ManifestErrors",
    "Mapping",
    "Node",
    "Place",
    "Position",
    "Problem",
    "Reading",
    "Scalar",
    "Sequence",
    "Span",
    "load",
    "place_of",
    "plain",
    "read",
    "read_document",
    "read_text",
]
