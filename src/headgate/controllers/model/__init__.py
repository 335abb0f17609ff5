"""Runs Models: workloads, ModelServers, routes and policies made from each Model.

`children_of` is pure: it decides which objects a Model should have, and what an engine cannot do.
`ModelController` makes them so, keeps them so, and reports how the Model stands.
"""

from headgate.controllers.model.children import (
    Child,
    Children,
    Observed,
    Problem,
    RunTimeAdapter,
    Sidecar,
    children_of,
)
from headgate.controllers.model.controller import ModelController, ModelStatistics
from headgate.controllers.model.settings import ModelSettings

__all__ = [
    "Child",
    "Children",
    "ModelController",
    "ModelSettings",
    "ModelStatistics",
    "Observed",
    "Problem",
    "RunTimeAdapter",
    "Sidecar",
    "children_of",
]
