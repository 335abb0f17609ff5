"""A fleet of simulated engines behind the scheduler, in virtual time.

Takes timed requests, a description of the engines and a scheduling policy; returns one record for each
request. Picks, bookings and health are the gateway's own code; engines are those of `simulator.model`. Pure:
equal inputs produce identical runs, bit by bit.
"""

from headgate.simulator.fleet.cold_start import ColdStart
from headgate.simulator.fleet.description import EngineGroup, FleetDescription
from headgate.simulator.fleet.observer import Observer
from headgate.simulator.fleet.records import EngineRecord, Outcome, RequestRecord
from headgate.simulator.fleet.run import run_fleet
from headgate.simulator.fleet.scaling import Scaling
from headgate.simulator.fleet.summary import FleetRun, Percentiles, Slo, Summary

__all__ = [
    "ColdStart",
    "EngineGroup",
    "EngineRecord",
    "FleetDescription",
    "FleetRun",
    "Observer",
    "Outcome",
    "Percentiles",
    "RequestRecord",
    "Scaling",
    "Slo",
    "Summary",
    "run_fleet",
]
