"""For every test its twins: the samples that find a discrepancy, and the discrepancy that samples find.

alpha: the false-alarm rate; beta: the miss rate. Discrepancies are total variations for joint tests and Kolmogorov
distances for the test of the randomised PIT, which does not bound a total variation.

statsmodels is loaded where it is needed: it takes seconds, and an audit needs only the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import optimize, stats

from verify.goodness import tv_bound


def chi_square_samples(discrepancy: float, alpha: float, beta: float, cells: int) -> int:
    """Samples with which chi-square finds a total variation, also when it is spread in the least visible way.

    The effect size of a total variation t is at least 2 t (Cauchy-Schwarz), attained where p is spread evenly.
    """
    from statsmodels.stats.power import GofChisquarePower

    if cells < 2:
        raise ValueError(f"cells: at least 2 are needed, got {cells}")
    samples = GofChisquarePower().solve_power(
        effect_size=2 * discrepancy, nobs=None, alpha=alpha, power=1 - beta, n_bins=cells
    )
    return math.ceil(float(samples))


def chi_square_detectable(samples: int, alpha: float, beta: float, cells: int) -> float:
    """The smallest total variation that chi-square finds with so many samples."""
    critical = stats.chi2.isf(alpha, cells - 1)
    largest = 4.0 * critical + 4_000  # far beyond the noncentrality of any power that floats can tell from 1
    noncentrality = optimize.brentq(lambda x: stats.ncx2.cdf(critical, cells - 1, x) - beta, 0, largest, xtol=1e-9)
    return math.sqrt(noncentrality / samples) / 2


def tv_gate_samples(discrepancy: float, alpha: float, beta: float, cells: int) -> int:
    """Samples with which the total-variation gate finds a total variation.

    On the set where the laws differ most, the sample falls short by more than sqrt(ln(1/beta) / 2N) with probability
    at most beta.
    """
    root = tv_bound(cells, 0.5, alpha) + math.sqrt(-math.log(beta))  # both for 2N = 1
    return math.ceil(root**2 / (2 * discrepancy**2))


def tv_gate_detectable(samples: int, alpha: float, beta: float, cells: int) -> float:
    """The smallest total variation that the total-variation gate finds with so many samples."""
    return (tv_bound(cells, 0.5, alpha) + math.sqrt(-math.log(beta))) / math.sqrt(2 * samples)


def ks_samples(distance: float, alpha: float, beta: float) -> int:
    """Samples with which Kolmogorov-Smirnov finds a distance, by the bound of Dvoretzky, Kiefer and Wolfowitz."""
    root = math.sqrt(math.log(2 / alpha)) + math.sqrt(-math.log(beta))
    return math.ceil(root**2 / (2 * distance**2))


def ks_detectable(samples: int, alpha: float, beta: float) -> float:
    """The smallest Kolmogorov distance that so many samples find."""
    return (math.sqrt(math.log(2 / alpha)) + math.sqrt(-math.log(beta))) / math.sqrt(2 * samples)


def holm(p_values: Sequence[float], alpha: float) -> list[bool]:
    """Which of several tests reject at a family-wise alpha, by Holm's step-down: the smallest p-value against
    alpha / n, the next against alpha / (n - 1), until one does not reject.

    statsmodels has it too, but collects garbage at every call: a third of a second with torch loaded.
    """
    rejected = [False] * len(p_values)
    for step, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        if p_values[index] > alpha / (len(p_values) - step):
            break
        rejected[index] = True
    return rejected
