"""Tokens per round of a sampler, with its interval, and the paired change between two runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

Emitted = Mapping[int, tuple[float, float]]  # (tokens, rounds) by shard number

CONFIDENCE = 0.99


@dataclass(frozen=True)
class Tau:
    """Tokens per round: the ratio of two sums over shards, its interval, and the sums themselves."""

    tau: float
    low: float
    high: float
    emitted: Emitted

    def record(self) -> dict[str, Any]:
        shards = sorted(self.emitted)
        return {
            "tau": self.tau,
            "interval": [self.low, self.high] if math.isfinite(self.low) else None,
            "confidence": CONFIDENCE,
            "shards": shards,
            "tokens": [self.emitted[i][0] for i in shards],
            "rounds": [self.emitted[i][1] for i in shards],
        }


@dataclass(frozen=True)
class Change:
    """By how much tokens per round changed, new less old, with its interval."""

    change: float
    low: float
    high: float


def estimate(emitted: Emitted) -> Tau | None:
    """Tokens per round of shards; None where rounds were not offered."""
    if not emitted:
        return None
    shards = sorted(emitted)
    tau = _ratio(emitted, shards)
    half = half_width(influence(emitted, shards), shares(emitted, shards))
    return Tau(tau, tau - half, tau + half, dict(emitted))


def change(old: list[Emitted], new: list[Emitted]) -> Change | None:
    """The mean over trials of the change of tokens per round; None where no trial has shards in common.

    Shards of one number were drawn with one seed, so their differences are taken pair by pair: what both have in
    common cancels.
    """
    differences, halves = [], []
    for before, after in zip(old, new, strict=True):
        shards = sorted(before.keys() & after.keys())
        if shards:
            differences.append(_ratio(after, shards) - _ratio(before, shards))
            sizes = (shares(after, shards) + shares(before, shards)) / 2
            halves.append(half_width(influence(after, shards) - influence(before, shards), sizes))
    if not differences:
        return None
    mean, half = float(np.mean(differences)), math.hypot(*halves) / len(halves)
    return Change(mean, mean - half, mean + half)


def _ratio(emitted: Emitted, shards: list[int]) -> float:
    return sum(emitted[i][0] for i in shards) / sum(emitted[i][1] for i in shards)


def influence(emitted: Emitted, shards: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """What each shard adds to the error of the ratio, to first order; they sum to 0."""
    tokens, rounds = np.array([emitted[i] for i in shards], dtype=np.float64).T
    return np.asarray((tokens - tokens.sum() / rounds.sum() * rounds) / rounds.sum())


def shares(emitted: Emitted, shards: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The share of all rounds that each shard has."""
    rounds = np.array([emitted[i][1] for i in shards], dtype=np.float64)
    return np.asarray(rounds / rounds.sum())


def half_width(
    errors: np.ndarray[tuple[int], np.dtype[np.float64]], sizes: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    """Half the confidence interval of a sum of independent errors [n] of shards of these sizes [n]; infinite for n < 2.

    The variance of an error grows with its shard. Shards differ much in size: without their shares a few large ones
    would decide alone, with fewer degrees of freedom than are counted.
    """
    n = len(errors)
    if n < 2:
        return math.inf
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * math.sqrt((errors**2 / sizes).sum() / (n - 1)))
