"""Our autoscaler: the decisions of the controller, by the signals of gateways and the recommended policy."""

from __future__ import annotations

from headgate.autoscaling import Bounds, MetricTarget, Policy, Rate
from headgate.simulator.autoscaling import PolicyController, Setting

TARGET = 0.8
"""Seconds of work per second that each replica should have: `headgate:work_seconds`."""
DOWN_WINDOW_S = 600.0


def ours(setting: Setting) -> PolicyController:
    policy = Policy(
        metrics=(MetricTarget("headgate:work_seconds", TARGET),), down=Rate(window_s=DOWN_WINDOW_S)
    )
    return PolicyController(policy, Bounds(setting.minimum, setting.maximum))
