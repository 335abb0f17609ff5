"""Answers from a data set: what was once said to the same conversation, or to another.

`open_dataset` makes a `Dataset` of what the settings name: a SQLite file in llm-d-inference-sim's form, here
or on the web, or a JSON file of conversations. The script of an answer asks it for what to say.
"""

from headgate.simulator.server.datasets.dataset import Answer, Dataset
from headgate.simulator.server.datasets.opening import DatasetError, open_dataset

__all__ = ["Answer", "Dataset", "DatasetError", "open_dataset"]
