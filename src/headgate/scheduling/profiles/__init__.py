"""Policies that are composed of plugins: filters, then scorers with weights, then a picker.

A profile is one such composition; a `Composed` policy asks the profile that is for a request. Scores are
summed by weight and not divided by the sum of weights, as in both systems whose plugins these are.
"""

from headgate.scheduling.profiles.composed import Composed
from headgate.scheduling.profiles.profile import Profile

__all__ = ["Composed", "Profile"]
