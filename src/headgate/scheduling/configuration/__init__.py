"""Configuration files of schedulers: the endpoint picker's and Kthena's, both as they are.

Is given the content of a file, and hands on a Plan, from which the policy of each pool is made, with all that
is wrong or without effect in the file. Reading files is left to those who may do it.
"""

from headgate.scheduling.configuration.kthena import AUTH, without_auth
from headgate.scheduling.configuration.named import NAMES, named
from headgate.scheduling.configuration.plan import Plan
from headgate.scheduling.configuration.problems import Problem, Problems
from headgate.scheduling.configuration.reading import Reading, is_configuration, read

__all__ = [
    "AUTH",
    "NAMES",
    "Plan",
    "Problem",
    "Problems",
    "Reading",
    "is_configuration",
    "named",
    "read",
    "without_auth",
]
