"""Fleets that grow and shrink: a trace is replayed with a controller that sets the number of replicas.

Replicas are a model of engines that is exact between events instead of step by step, so that a day of traffic
takes seconds. Pure: time is virtual, and the controller is called with the state of the fleet.
"""

from headgate.simulator.autoscaling.over_time import Window, windows
from headgate.simulator.autoscaling.policy import PolicyController, replay_policy
from headgate.simulator.autoscaling.replica import Replica
from headgate.simulator.autoscaling.run import Controller, Moment, Replay, Setting, replay
from headgate.simulator.autoscaling.scaled_fleet import ScaledFleet
from headgate.simulator.autoscaling.score import Score, reversals, score
from headgate.simulator.autoscaling.work import Ledger, Work, work_of

__all__ = [
    "Controller",
    "Ledger",
    "Moment",
    "PolicyController",
    "Replay",
    "Replica",
    "ScaledFleet",
    "Score",
    "Setting",
    "Window",
    "Work",
    "replay",
    "replay_policy",
    "reversals",
    "score",
    "windows",
    "work_of",
]
