"""Curves of few points from what slots were worth: monotone, for each kind of slot and each depth of its parent."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from scipy.optimize import isotonic_regression

from rheo.calibration import Calibration, Curve
from rheo.tree import ANCHOR, FILLER, PROBE
from verify.calibrating.observed import Floats, Observed

KNOTS = 10  # of a curve, beside its ends
_A_KNOT = 40  # slots that a point of a curve stands for at least
LEAST = 200  # slots that a curve of its own takes
_DIGITS = 4


def fitted(observed: Observed, weighted: bool = True) -> Calibration:
    """The calibration of these slots. weighted: a slot counts as often as its parent is reached, else once.

    ValueError where there are too few slots of a kind for a single curve.
    """
    if not weighted:
        observed = replace(observed, weight=np.ones_like(observed.weight))
    names = {"anchor": ANCHOR, "probe": PROBE, "filler": FILLER}
    return Calibration(**{name: _by_depth(name, observed.where(observed.kind == kind)) for name, kind in names.items()})


def counted(weight: Floats) -> float:
    """How many slots of equal weight would say as much."""
    squares = float((weight**2).sum())
    return float(weight.sum()) ** 2 / squares if squares > 0 else 0.0


def curve(x: Floats, worth: Floats, weight: Floats) -> Curve:
    """From (0, 0) to x = 1 through points of a monotone regression: means over bins that hold equal shares of x."""
    knots = int(np.clip(counted(weight) // _A_KNOT, 1, KNOTS))
    x, place = np.unique(x, return_inverse=True)  # slots of equal x are one, or the regression would sort them
    total: Floats = np.bincount(place, weight).astype(np.float64)
    worth, weight = np.bincount(place, weight * worth) / total, total
    level = isotonic_regression(worth, weights=weight).x
    share = np.cumsum(weight * x)
    # Half of a slot's own share: a slot that holds a whole bin's is not put into the next one.
    bins = np.minimum((share - weight * x / 2) / share[-1] * knots, knots - 1).astype(int)
    held = np.bincount(bins, weight, minlength=knots)
    kept = held > 0
    at, value = (np.bincount(bins, weight * y, minlength=knots)[kept] / held[kept] for y in (x, level))
    points: list[tuple[Fraction, Fraction]] = [(Fraction(0), Fraction(0))]
    for a, b in zip(at.tolist(), value.tolist(), strict=True):
        point = _rounded(a), max(_rounded(b), points[-1][1])
        if points[-1][0] < point[0] < 1:
            points.append(point)
    return (*points, (Fraction(1), max(_rounded(float(value[-1])), points[-1][1])))


def _by_depth(name: str, observed: Observed) -> tuple[Curve, ...]:
    """A curve for each depth from 0 on that has slots enough and leaves enough below; the last for all that is left."""
    curves: list[Curve] = []
    left = observed.where(observed.weight > 0)
    if not len(left.x):
        raise ValueError(f"there is no {name} to learn from")
    while True:
        here = left.depth == len(curves)
        if min(counted(left.weight[here]), counted(left.weight[~here])) < LEAST:
            return (*curves, curve(left.x, left.worth, left.weight))
        curves.append(curve(left.x[here], left.worth[here], left.weight[here]))
        left = left.where(~here)


def _rounded(value: float) -> Fraction:
    return min(Fraction(str(round(value, _DIGITS))), Fraction(1))
