"""Scales workloads by AutoscalingPolicies and their bindings.

What is decided, and why, is computed by the room `autoscaling`. Here is what it needs: which workloads a
binding names and whether another object decides about them already, what their Pods and the gateways
measure, and the write of replicas and of a status that explains them.
"""

from headgate.controllers.autoscaling.controller import AutoscalingController
from headgate.controllers.autoscaling.figures import add_figures
from headgate.controllers.autoscaling.settings import AutoscalingSettings

__all__ = ["AutoscalingController", "AutoscalingSettings", "add_figures"]
