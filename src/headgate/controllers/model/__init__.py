"""Runs Models: workloads, ModelServers, routes and policies made from each Model.

`children_of` is pure: it decides which objects a Model should have, and what an engine cannot do.
"""

from headgate.controllers.model.children import Child, Children, Observed, Problem, children_of
from headgate.controllers.model.settings import ModelSettings

__all__ = ["Child", "Children", "ModelSettings", "Observed", "Problem", "children_of"]
