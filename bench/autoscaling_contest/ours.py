"""Our autoscaler: the decisions of the controller, with the signals of the gateway, at defaults."""

from __future__ import annotations

from headgate.autoscaling import Bounds, MetricTarget, Policy
from headgate.simulator.autoscaling import Setting
from headgate.simulator.autoscaling.policy import PolicyController

TARGET = 0.7
"""Seconds of work per second that each replica should have: `headgate:work_seconds`."""


def ours(setting: Setting) -> PolicyController:
    policy = Policy(metrics=(MetricTarget("headgate:work_seconds", TARGET),))
    return PolicyController(policy, Bounds(setting.minimum, setting.maximum))
