"""Fit a line to measured times, robustly: y = intercept + slope * x, with neither below zero.

Errors of times grow with their size, so residuals are relative. Outliers count less the further they are off
(Huber's weights, iterated), and a prior holds what the points leave open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from headgate.planning.search import Array

__all__ = ["FACTOR", "Line", "Point", "fit"]

FACTOR: Final = 10.0
"""How far a fit may be from its prior."""
NOISE: Final = 0.05
"""Relative error of one observation, compared with the prior's of 1."""
_PRIOR_SHARE: Final = 0.1
"""A part of the prior that is smaller than this share of the whole is known no better than that."""
_HUBER: Final = 1.345
"""In standard deviations: the usual choice, which loses 5 % of the precision if there are no outliers."""
_LEAST_SPREAD: Final = 0.005
"""Relative residuals below this are not outliers, however well all others fit."""
_ROUNDS: Final = 12
_RIDGE: Final = 1e-12


class Point(NamedTuple):
    """A measured time."""

    x: float
    y: float
    """Above 0."""
    weight: float = 1.0
    """How many observations it stands for."""


class Line(NamedTuple):
    """A line, and how well it is known."""

    intercept: float
    slope: float
    intercept_error: float = 0.0
    """Standard error."""
    slope_error: float = 0.0
    error: float = 0.0
    """Typical relative distance of the points, as the root of their mean square, outliers weighted down."""

    def at(self, x: float) -> float:
        return self.intercept + self.slope * x


def fit(points: Sequence[Point], prior: Line | None = None) -> Line:
    """Fit points, of which there must be one at least, with positive x and y.

    With a prior, each number stays within FACTOR of it. A number may exceed a prior that is small, or 0,
    compared with the whole time: up to FACTOR times the whole at the mean x.
    """
    x, y, weight = (np.array(column, float) for column in zip(*points, strict=True))
    unit = float(np.average(x, weights=weight))
    columns = np.stack([np.ones_like(x), x / unit], axis=1)
    low, high, held, guess = _limits(prior, unit)
    found = np.array([float(np.average(y, weights=weight)), 0.0]) if prior is None else guess
    trust = np.ones_like(x)
    expected = y
    normal = np.eye(2)
    for _ in range(_ROUNDS):
        each = weight * trust / (NOISE * expected) ** 2
        normal = columns.T @ (columns * each[:, None]) + np.diag(held)
        normal += np.eye(2) * (_RIDGE * np.trace(normal))
        before, found = found, _minimum(normal, columns.T @ (each * y) + held * guess, low, high)
        # The mean of what was seen and what is expected: a point near zero must not count for all the others.
        expected = (columns @ found + y) / 2
        trust = _trust((y - columns @ found) / expected, weight)
        if np.allclose(before, found, rtol=1e-6, atol=0):
            break
    residual = (y - columns @ found) / expected
    error = math.sqrt(float(np.average(residual**2, weights=weight * trust)))
    spread = np.linalg.inv(normal) * max(1.0, error / NOISE) ** 2
    return Line(
        intercept=float(found[0]),
        slope=float(found[1]) / unit,
        intercept_error=math.sqrt(spread[0, 0]),
        slope_error=math.sqrt(spread[1, 1]) / unit,
        error=error,
    )


def _limits(prior: Line | None, unit: float) -> tuple[Array, Array, Array, Array]:
    """Bounds, weight and values of the prior, for the intercept and for what the slope adds at `unit`."""
    zero = np.zeros(2)
    whole = 0.0 if prior is None else prior.at(unit)
    if prior is None or whole <= 0:
        return zero, np.full(2, math.inf), zero, zero
    guess = np.array([prior.intercept, prior.slope * unit], float)
    scale = np.maximum(guess, _PRIOR_SHARE * whole)
    return guess / FACTOR, np.full(2, FACTOR * whole), scale**-2, guess


def _trust(residual: Array, weight: Array) -> Array:
    """Huber's weights, by the median size of the residuals."""
    size = np.abs(residual)
    order = np.argsort(size)
    total = np.cumsum(weight[order])
    median = size[order][np.searchsorted(total, total[-1] / 2)]
    limit = _HUBER * max(1.4826 * float(median), _LEAST_SPREAD)
    return np.asarray(np.minimum(1.0, limit / np.maximum(size, 1e-300)), float)


def _minimum(normal: Array, target: Array, low: Array, high: Array) -> Array:
    """The least of a convex quadratic function of two numbers within a box: inside, or on an edge."""
    free: Array = np.linalg.solve(normal, target).astype(float)
    if bool(np.all((low <= free) & (free <= high))):
        return free
    found: list[Array] = []
    for fixed in (0, 1):
        other = 1 - fixed
        for edge in (low[fixed], high[fixed]):
            if math.isfinite(edge):
                best = np.empty(2)
                best[fixed] = edge
                best[other] = (target[other] - normal[other, fixed] * edge) / normal[other, other]
                found.append(np.clip(best, low, high))
    return min(found, key=lambda each: float(each @ normal @ each / 2 - target @ each))
