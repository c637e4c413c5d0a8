"""A test that may be looked at again and again: an e-process on the randomised PIT.

Each of a set of gamblers bets, sample by sample, that the PIT is not uniform in some way; if it is uniform, none can
expect to gain. The average wealth is a non-negative martingale that starts at 1, so by Ville's inequality it ever
reaches 1/alpha with probability at most alpha, however often and whenever one looks: one alpha for a lifetime.

The bets are on which of `BINS` equal bins a value falls into, so all that has to be kept of the past is how many fell
into each: a gambler's wealth is the product over bins of its gain there to the power of the count. It is looked at
after every `BLOCK` samples of the lifetime (looking less often is as valid): nothing depends on how a stream was cut.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BINS = 256
BLOCK = 256
# The directions bet on: cos(k pi u) has mean 0 under the uniform and lies in [-1, 1]. k = 1 sees mass moved towards
# one end, k = 2 towards both or the middle, higher ones finer ripples.
FREQUENCIES = (1, 2, 3, 4, 6, 8)
# The shares of its wealth that a gambler bets. A fault of size d is found fastest by a share near d.
STAKES = (0.003, 0.01, 0.03, 0.1, 0.3)
_EDGES = np.arange(BINS + 1) / BINS


def _waves(frequency: int) -> NDArray[np.float64]:
    """The means of cos(k pi u) over the bins [BINS]. They sum to 0, as the sines at both ends are 0."""
    return np.asarray(np.diff(np.sin(frequency * np.pi * _EDGES)) * BINS / (frequency * np.pi))


# What one unit of wealth becomes: [BINS, gamblers].
_GAINS = 1 + np.stack([sign * stake * _waves(k) for k in FREQUENCIES for stake in STAKES for sign in (-1, 1)], axis=1)
_LOG_GAINS = np.log(_GAINS)
_GAMBLERS = _GAINS.shape[1]
_VERSION = 2


@dataclass(frozen=True)
class State:
    """How many samples fell into each bin [BINS], and the largest average wealth that was seen (log)."""

    counts: tuple[int, ...] = (0,) * BINS
    log_peak: float = 0.0

    @property
    def samples(self) -> int:
        return sum(self.counts)

    @property
    def log_evidence(self) -> float:
        """Logarithm of the average wealth now."""
        return _log_average(np.array(self.counts, dtype=np.float64))

    def rejects(self, alpha: float) -> bool:
        """Whether the average wealth was ever seen to have reached 1/alpha."""
        return self.log_peak >= -math.log(alpha)


def _log_average(counts: NDArray[np.float64]) -> float:
    return float(np.logaddexp.reduce(counts @ _LOG_GAINS)) - math.log(_GAMBLERS)


def update(state: State, pit: NDArray[np.float64]) -> State:
    """The state after more PIT values [n], in the order they came. ValueError for a value outside [0, 1]."""
    if pit.size and not (pit.min() >= 0 and pit.max() <= 1):
        raise ValueError("PIT values must lie in [0, 1]")
    bins = np.minimum((pit * BINS).astype(np.intp), BINS - 1)
    counts, peak = np.array(state.counts, dtype=np.float64), state.log_peak
    start, end = 0, BLOCK - state.samples % BLOCK
    while end <= len(bins):
        counts += np.bincount(bins[start:end], minlength=BINS)
        peak = max(peak, _log_average(counts))
        start, end = end, end + BLOCK
    counts += np.bincount(bins[start:], minlength=BINS)
    return State(tuple(counts.astype(np.int64).tolist()), peak)


def detectable(samples: int, alpha: float, beta: float) -> float | None:
    """The Kolmogorov distance of the smallest tilt that so many samples find; None if they find none.

    A tilt has the density 1 + a cos(pi u), -1 <= a <= 1, and the Kolmogorov distance |a| / pi: mass moved smoothly
    towards one end, as by a sampler that owes something to its draft, in the order of p/q. One gambler's wealth has to
    exceed gamblers/alpha at the last look; by Hoeffding its logarithm falls short of its mean, which is linear in a, by
    more than width * sqrt(looked ln(1/beta) / 2) with probability at most beta.
    """
    looked = samples - samples % BLOCK
    if looked == 0:
        return None
    wave, least = _waves(1), math.inf
    for stake in STAKES:
        gains = np.log1p(stake * wave)
        shortfall = np.ptp(gains) * math.sqrt(-looked * math.log(beta) / 2)
        needed = (math.log(_GAMBLERS / alpha) + shortfall) / looked
        least = min(least, float((needed - gains.mean()) / (wave * gains).mean()))
    return least / math.pi if least <= 1 else None


def dumps(state: State) -> str:
    """The state as JSON text, to be resumed by `loads`."""
    return json.dumps({"version": _VERSION, **vars(state)})


def loads(text: str) -> State:
    """A saved state. ValueError for anything `dumps` did not write."""
    try:
        values = json.loads(text)
        state = State(tuple(map(int, values["counts"])), float(values["log_peak"]))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"no saved state of an e-process: {error}") from None
    if values.get("version") != _VERSION or len(state.counts) != BINS:
        raise ValueError("a saved state of another version of the e-process")
    return state
