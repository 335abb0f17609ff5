"""Configuration files of schedulers: the endpoint picker's and Kthena's, unchanged.

Input: the content of a file. Output: a Plan, from which each pool's policy is created, and the file's errors
and settings without effect. Callers read the files.
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
