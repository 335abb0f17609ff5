"""Plans the replicas of VariantAutoscalings, all together.

What is planned, and why, is computed by the room `planning`. Here is what it needs: the objects and
ConfigMaps of llm-d's workload variant autoscaler, loads as gateways measure them, and what others act on:
statuses, gauges, and on request the replicas themselves.
"""

from headgate.controllers.planning.controller import PlanningController
from headgate.controllers.planning.figures import Figures, add_figures
from headgate.controllers.planning.settings import PlanningSettings

__all__ = ["Figures", "PlanningController", "PlanningSettings", "add_figures"]
