"""Tracks the live state of every endpoint: its requests in flight and what its engine reports.

The room records each request that starts and ends, each outcome, and each metrics page. It gives the
scheduler one `EndpointState` per endpoint, which outlives the snapshots that routing makes.
"""

from headgate.fleet import adapters, blame, scripts
from headgate.fleet.answer_sizes import AnswerSizes
from headgate.fleet.blame import SharedStatuses
from headgate.fleet.ejection import ejected, hung, most_ejected, without_requests
from headgate.fleet.ejection_policy import EjectionPolicy
from headgate.fleet.estimator import Estimator
from headgate.fleet.evidence import Evidence
from headgate.fleet.learned_sizes import LearnedSizes
from headgate.fleet.ledger import Booking, EndpointState, Ledger
from headgate.fleet.observation import Observation, ReadingState
from headgate.fleet.outliers import Tally
from headgate.fleet.pool_rates import PoolRates
from headgate.fleet.prediction import Prediction
from headgate.fleet.prompt_sizes import PromptSizes
from headgate.fleet.rates import Rates
from headgate.fleet.reading import EngineReading
from headgate.fleet.retry_budget import RetryBudget, RetryBudgetPolicy
from headgate.fleet.served_models import ModelPath
from headgate.fleet.suspects import ACCEPTED_AFTER_S, Suspect, Suspects
from headgate.fleet.waits import Waits

__all__ = [
    "ACCEPTED_AFTER_S",
    "AnswerSizes",
    "Booking",
    "EjectionPolicy",
    "EndpointState",
    "EngineReading",
    "Estimator",
    "Evidence",
    "LearnedSizes",
    "Ledger",
    "ModelPath",
    "Observation",
    "PoolRates",
    "Prediction",
    "PromptSizes",
    "Rates",
    "ReadingState",
    "RetryBudget",
    "RetryBudgetPolicy",
    "SharedStatuses",
    "Suspect",
    "Suspects",
    "Tally",
    "Waits",
    "adapters",
    "blame",
    "ejected",
    "hung",
    "most_ejected",
    "scripts",
    "without_requests",
]
