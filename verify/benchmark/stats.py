"""Means with intervals over prompts, and over suites. What comes from one prompt depends on each other, so a prompt
is one sample; ratios of sums, since prompts differ in size.

Every figure is made of Emitted, prompt -> (sum, count), one a suite; see verify.acceptance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev
from typing import Any

from verify.acceptance import Emitted, change, estimate, half_width, influence, shares

Figure = dict[str, Any]


def mean(suites: Sequence[Emitted]) -> tuple[float, list[float] | None]:
    """The mean over suites of a ratio, and its 99 % interval; None with one prompt in a suite. No suite is empty."""
    found = [tau for tau in map(estimate, suites) if tau is not None]
    center = sum(tau.tau for tau in found) / len(found)
    return center, interval(center, math.hypot(*(tau.high - tau.tau for tau in found)) / len(found))


def difference(new: Sequence[Emitted], old: Sequence[Emitted]) -> Figure | None:
    """The mean over suites of new less old, paired by prompt; None where they have none in common."""
    found = change(list(old), list(new))
    return (
        None if found is None else {"mean": found.change, "interval": interval(found.change, found.high - found.change)}
    )


def speedup(new: Sequence[Emitted], old: Sequence[Emitted]) -> tuple[float | None, list[float] | None]:
    """The mean over suites of one rate over another, on the prompts both have, with its interval (delta method)."""
    ratios, halves = [], []
    for fast, slow in zip(new, old, strict=True):
        prompts = sorted(fast.keys() & slow.keys())
        if not prompts:
            continue
        rates = [sum(x[i][0] for i in prompts) / sum(x[i][1] for i in prompts) for x in (fast, slow)]
        errors = [influence(x, prompts) / rate for x, rate in zip((fast, slow), rates, strict=True)]
        sizes = (shares(fast, prompts) + shares(slow, prompts)) / 2
        ratios.append(rates[0] / rates[1])
        halves.append(ratios[-1] * half_width(errors[0] - errors[1], sizes))
    if not ratios:
        return None, None
    center = sum(ratios) / len(ratios)
    return center, interval(center, math.hypot(*halves) / len(halves))


def interval(center: float, half: float) -> list[float] | None:
    """[low, high], or None where nothing is known of the error."""
    return [center - half, center + half] if math.isfinite(half) else None


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation of a few runs; None of one."""
    return stdev(values) if len(values) > 1 else None
