"""Load tests: send requests to a server of OpenAI's API at planned times, and measure what clients see.

Takes the requests of a trace, a generated workload or a dataset, and the address of a gateway or an engine.
It sends each request at its time, however slow the server is, and counts times from when a request was due.
It returns counts, histograms of times, and the records of requests, which `compare` compares with those of
another run.
"""

from headgate.loadtest.comparing import Difference, compare
from headgate.loadtest.connecting import Target
from headgate.loadtest.histogram import Histogram
from headgate.loadtest.http import HttpError, Response, Server
from headgate.loadtest.lag import Burden
from headgate.loadtest.measuring import Job, State, measure
from headgate.loadtest.plan.arrivals import PROCESSES, Pace, paced
from headgate.loadtest.plan.conversations import Api, Conversation, Form, conversations
from headgate.loadtest.probing import Patience, probe, served_model
from headgate.loadtest.records import Record, Slo, Tally
from headgate.loadtest.results import Measured, Results, load, results, save
from headgate.loadtest.running import Limits
from headgate.loadtest.workers import measure_in_processes

__all__ = [
    "PROCESSES",
    "Api",
    "Burden",
    "Conversation",
    "Difference",
    "Form",
    "Histogram",
    "HttpError",
    "Job",
    "Limits",
    "Measured",
    "Pace",
    "Patience",
    "Record",
    "Response",
    "Results",
    "Server",
    "Slo",
    "State",
    "Tally",
    "Target",
    "compare",
    "conversations",
    "load",
    "measure",
    "measure_in_processes",
    "paced",
    "probe",
    "results",
    "save",
    "served_model",
]
