"""Reading manifests: files, directories and standard input become objects that know where each value stands.

Is given paths by a person, and text that may be anything. It hands on objects as an API server would see
them, with a tree of positions beside each, and every problem of the text with its line and column.
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
from headgate.cli.manifests.reading import Manifest, Problem, Reading, read, read_document

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
]
