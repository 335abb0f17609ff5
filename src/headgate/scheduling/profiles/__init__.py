"""Policies composed of plugins: filters, then weighted scorers, then a picker.

A profile is one such composition; a `Composed` policy uses the profile for the request's phase. Scores are
summed by weight and not divided by the sum of weights, as in both systems that the plugins come from.
"""

from headgate.scheduling.profiles.composed import Composed
from headgate.scheduling.profiles.profile import Profile

__all__ = ["Composed", "Profile"]
