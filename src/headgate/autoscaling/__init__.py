"""Decides how many replicas a workload should have.

A pass gets a policy, bounds, the history of earlier passes and an observation, and returns a decision with
its explanation and the new history. The room is pure: time, samples and state are arguments. The controller
and the simulator run the same code.
"""

from headgate.autoscaling.decision import Decision
from headgate.autoscaling.forecast import Outlook
from headgate.autoscaling.group import Split, split
from headgate.autoscaling.history import History
from headgate.autoscaling.optimizer import Param
from headgate.autoscaling.policy import Bounds, MetricTarget, Panic, Policy, Rate, compile_policy
from headgate.autoscaling.recommendation import MetricView
from headgate.autoscaling.samples import Observation, PodSample, Total
from headgate.autoscaling.scaler import decide

__all__ = [
    "Bounds",
    "Decision",
    "History",
    "MetricTarget",
    "MetricView",
    "Observation",
    "Outlook",
    "Panic",
    "Param",
    "PodSample",
    "Policy",
    "Rate",
    "Split",
    "Total",
    "compile_policy",
    "decide",
    "split",
]
