"""For every test its twins: the samples that find a discrepancy, and the discrepancy that samples find.

alpha: the false-alarm rate; beta: the miss rate. Discrepancies are total variations for joint tests and Kolmogorov
distances for the test of the randomised PIT, which does not bound a total variation.

statsmodels is loaded where it is needed: it takes seconds, and an audit needs only the bounds.
"""

from __future__ import annotations

import math

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
    from statsmodels.stats.power import GofChisquarePower

    effect = GofChisquarePower().solve_power(effect_size=None, nobs=samples, alpha=alpha, power=1 - beta, n_bins=cells)
    return float(effect) / 2


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


def holm(p_values: list[float], alpha: float) -> list[bool]:
    """Which of several tests reject at a family-wise alpha (Holm's step-down)."""
    from statsmodels.stats.multitest import multipletests

    return [bool(rejected) for rejected in multipletests(p_values, alpha=alpha, method="holm")[0]]
