"""How requests wait, as the files and the environments of other systems say it.

Is given the content of a configuration of the endpoint picker, or the environment of Kthena's router, and
hands on a Queueing with all that is wrong or without effect in it. Reading either is left to those who may.
"""

from headgate.flow.configuration.kthena import ENVIRONMENT, of_kthena
from headgate.flow.configuration.picker import of_picker
from headgate.flow.configuration.queueing import Queueing
from headgate.flow.configuration.reading import Reading, read
from headgate.scheduling.configuration import Problems

__all__ = ["ENVIRONMENT", "Problems", "Queueing", "Reading", "of_kthena", "of_picker", "read"]
