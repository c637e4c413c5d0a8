"""A test that may be looked at after every sample: an e-process on the randomised PIT.

Each of a set of gamblers bets, sample by sample, that the PIT is not uniform in some way; if it is uniform, none can
expect to gain. The average wealth is a non-negative martingale that starts at 1, so by Ville's inequality it ever
reaches 1/alpha with probability at most alpha, however often and whenever one looks: one alpha for a lifetime.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

# The directions bet on: cos(k pi u) has mean 0 under the uniform and lies in [-1, 1]. k = 1 sees mass moved towards
# one end, k = 2 towards both or the middle, higher ones finer ripples.
FREQUENCIES = (1, 2, 3, 4, 6, 8)
# The shares of its wealth that a gambler bets. A fault of size d is found fastest by a share near d.
STAKES = (0.003, 0.01, 0.03, 0.1, 0.3)
_BETS = np.array([[k, sign * stake] for k in FREQUENCIES for stake in STAKES for sign in (-1, 1)])
_VERSION = 1


@dataclass(frozen=True)
class State:
    """Logarithms of the gamblers' wealth [gamblers], the samples seen, and the largest average wealth so far (log)."""

    log_wealth: tuple[float, ...] = (0.0,) * len(_BETS)
    samples: int = 0
    log_peak: float = 0.0

    @property
    def log_evidence(self) -> float:
        """Logarithm of the average wealth now."""
        return float(logsumexp(self.log_wealth) - math.log(len(self.log_wealth)))

    def rejects(self, alpha: float) -> bool:
        """Whether the average wealth has ever reached 1/alpha."""
        return self.log_peak >= -math.log(alpha)


def update(state: State, pit: NDArray[np.float64], chunk: int = 4_096) -> State:
    """The state after more PIT values [n], in the order they came. ValueError for a value outside [0, 1]."""
    if pit.size and not (pit.min() >= 0 and pit.max() <= 1):
        raise ValueError("PIT values must lie in [0, 1]")
    wealth, peak = np.array(state.log_wealth), state.log_peak
    for start in range(0, len(pit), chunk):
        part = pit[start : start + chunk]
        gains = np.log1p(_BETS[:, 1:] * np.cos(np.pi * _BETS[:, :1] * part))
        path = wealth[:, None] + np.cumsum(gains, axis=1)
        peak = max(peak, float(np.max(logsumexp(path, axis=0))) - math.log(len(wealth)))
        wealth = path[:, -1]
    return replace(state, log_wealth=tuple(wealth.tolist()), samples=state.samples + len(pit), log_peak=peak)


def dumps(state: State) -> str:
    """The state as JSON text, to be resumed by `loads`."""
    return json.dumps({"version": _VERSION, **vars(state)})


def loads(text: str) -> State:
    """A saved state. ValueError for anything `dumps` did not write."""
    try:
        values = json.loads(text)
        wealth = tuple(float(x) for x in values["log_wealth"])
        state = State(wealth, int(values["samples"]), float(values["log_peak"]))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"no saved state of an e-process: {error}") from None
    if values.get("version") != _VERSION or len(wealth) != len(_BETS):
        raise ValueError("a saved state of another version of the e-process")
    return state
