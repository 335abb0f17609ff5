"""Translates queue settings of other systems.

Input: the content of an endpoint picker configuration, or the environment of Kthena's router. Output: a
Queueing, with all errors and settings without effect. Callers read the files and the environment.
"""

from headgate.flow.configuration.kthena import ENVIRONMENT, of_kthena
from headgate.flow.configuration.picker import of_picker
from headgate.flow.configuration.queueing import Queueing
from headgate.flow.configuration.reading import Reading, read
from headgate.scheduling.configuration import Problems

__all__ = ["ENVIRONMENT", "Problems", "Queueing", "Reading", "of_kthena", "of_picker", "read"]
