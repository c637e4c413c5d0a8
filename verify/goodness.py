"""Goodness of fit on counts of whole sequences. Each test has its twins in `verify.power`.

Only joint tests support a statement about total variation, and only the finite-sample gate does so at any alpha and
any number of samples: the chi-square tail is far off where alpha is tiny and cells are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Counts = NDArray[np.integer]
Law = NDArray[np.float64]

# Expected samples a cell below which the chi-square distribution is not trusted, at the alphas used here.
LEAST_EXPECTED = 3_000


@dataclass(frozen=True)
class Evidence:
    """What one test says: its statistic, and the probability of one as large if the sampler is right."""

    test: str
    statistic: float
    p_value: float
    samples: int


def impossible(counts: Counts, law: Law) -> Evidence | None:
    """A sequence of probability zero that was sampled settles it; None if there is none."""
    wrong = int(counts[law == 0].sum())
    return Evidence("impossible", float(wrong), 0.0, int(counts.sum())) if wrong else None


def chi_square(counts: Counts, law: Law) -> Evidence:
    """Pearson's test of counts [cells] against a law [cells]. ValueError where a cell expects too few samples."""
    return impossible(counts, law) or _power_divergence("chi-square", counts, law, "pearson")


def g_test(counts: Counts, law: Law) -> Evidence:
    """The likelihood-ratio test of counts [cells] against a law [cells]. ValueError as `chi_square`."""
    return impossible(counts, law) or _power_divergence("G", counts, law, "log-likelihood")


def _power_divergence(name: str, counts: Counts, law: Law, lambda_: Literal["pearson", "log-likelihood"]) -> Evidence:
    total, possible = int(counts.sum()), law > 0
    expected = total * law[possible] / law.sum()
    if possible.sum() < 2:
        return Evidence(name, 0.0, 1.0, total)
    if expected.min() < LEAST_EXPECTED:
        raise ValueError(
            f"{name}: a cell expects {expected.min():.0f} samples, at least {LEAST_EXPECTED} are needed; "
            "use the total-variation gate"
        )
    statistic, p_value = stats.power_divergence(counts[possible], expected, lambda_=lambda_)
    return Evidence(name, float(statistic), float(p_value), total)


def tv_gate(counts: Counts, law: Law) -> Evidence:
    """The empirical total variation, with a p-value that holds for any number of samples and any cells.

    Over the 2^cells - 2 sets that can attain it, Hoeffding's bound gives P(TV >= t) <= (2^cells - 2) exp(-2 N t^2).
    """
    found = impossible(counts, law)
    if found is not None:
        return found
    total = int(counts.sum())
    distance = float(np.abs(counts / total - law).sum() / 2)
    return Evidence("total variation", distance, math.exp(min(0.0, log_sets(law) - 2 * total * distance**2)), total)


def is_full(samples: int, law: Law) -> bool:
    """Whether every possible cell of a law [cells] expects enough samples for chi-square."""
    return bool(samples * law[law > 0].min() / law.sum() >= LEAST_EXPECTED)


def joint_test(counts: Counts, law: Law) -> Evidence:
    """Chi-square where every possible cell expects enough samples, else the total-variation gate."""
    return (chi_square if is_full(int(counts.sum()), law) else tv_gate)(counts, law)


def tv_bound(cells: int, samples: float, alpha: float) -> float:
    """The empirical total variation that a right sampler exceeds with probability at most alpha."""
    return math.sqrt((_log_sets(cells) - math.log(alpha)) / (2 * samples))


def two_sample_chi_square(first: Counts, second: Counts) -> Evidence:
    """Whether two counts [cells] come from one law, for when only samples of the target exist."""
    seen = (first + second) > 0
    table = np.stack([first[seen], second[seen]])
    total = int(table.sum())
    if table.shape[1] < 2:
        return Evidence("two-sample chi-square", 0.0, 1.0, total)
    result = stats.chi2_contingency(table, correction=False)
    if result.expected_freq.min() < LEAST_EXPECTED:
        raise ValueError(
            f"two-sample chi-square: a cell expects {result.expected_freq.min():.0f} samples, at least "
            f"{LEAST_EXPECTED} are needed; use the two-sample total-variation gate"
        )
    return Evidence("two-sample chi-square", float(result.statistic), float(result.pvalue), total)


def two_sample_tv_gate(first: Counts, second: Counts) -> Evidence:
    """The total variation between two empirical laws, with a finite-sample p-value.

    For one set, the difference of two means of n and m indicators exceeds t with probability at most
    exp(-2 t^2 n m / (n + m)) (Hoeffding over all n + m variables).
    """
    n, m = int(first.sum()), int(second.sum())
    distance = float(np.abs(first / n - second / m).sum() / 2)
    exponent = _log_sets(len(first)) - 2 * distance**2 * n * m / (n + m)
    return Evidence("two-sample total variation", distance, math.exp(min(0.0, exponent)), n + m)


def independent_rows(cells: NDArray[np.integer], law: Law) -> Evidence:
    """Whether successive samples are independent: disjoint pairs of neighbours against the square of the law.

    cells: int [n], the cell of each sample in the order drawn. A batch whose rows share randomness fails.
    """
    return pairs_independent(pairs_of(cells, len(law))[0], law, "neighbours")


def _fours(cells: NDArray[np.integer]) -> NDArray[np.integer]:
    return cells[: len(cells) // 4 * 4].reshape(-1, 4)


# The rows that are held against each other: of each pairing, no row is in two pairs.
PAIRINGS: dict[str, Callable[[NDArray[np.integer]], tuple[NDArray[np.integer], NDArray[np.integer]]]] = {
    "neighbours": lambda c: (c[: len(c) // 2 * 2 : 2], c[1::2]),
    "neighbours from the second": lambda c: (c[1 : len(c) - (len(c) + 1) % 2 : 2], c[2::2]),
    "rows two apart": lambda c: (_fours(c)[:, :2], _fours(c)[:, 2:]),
    "halves": lambda c: (c[: len(c) // 2], c[len(c) // 2 : len(c) // 2 * 2]),
    "halves mirrored": lambda c: (c[: len(c) // 2], c[::-1][: len(c) // 2]),
}


def pairs_of(cells: NDArray[np.integer], k: int) -> NDArray[np.int64]:
    """How often one cell meets another in each of PAIRINGS, int64 [pairings, k, k]; cells: int [n]."""
    found = []
    for pairing in PAIRINGS.values():
        first, second = pairing(cells)
        found.append(np.bincount((first * k + second).ravel(), minlength=k * k).reshape(k, k))
    return np.stack(found)


def pairs_independent(pairs: Counts, law: Law, pairing: str) -> Evidence:
    """Pairs [k, k] of one of PAIRINGS against the square of the law [k]."""
    found = tv_gate(pairs.ravel(), np.outer(law, law).ravel())
    return Evidence(f"independence of {pairing}", found.statistic, found.p_value, found.samples)


def too_even(counts: Counts, law: Law) -> Evidence:
    """Whether counts [cells] lie closer to a law [cells] than independent samples do: the lower tail of chi-square.

    Rows that are drawn to complement each other (stratified, antithetic) have the right law and fail. ValueError as
    `chi_square`.
    """
    found = chi_square(counts, law)
    p_value = stats.chi2.cdf(found.statistic, max(int((law > 0).sum()) - 1, 1)) if found.test == "chi-square" else 1.0
    return Evidence("too even", found.statistic, float(p_value) if (law > 0).sum() > 1 else 1.0, found.samples)


def log_sets(law: Law) -> float:
    """ln(2^k - 2) for the k cells of positive probability."""
    return _log_sets(int((law > 0).sum()))


def _log_sets(cells: int) -> float:
    # Beyond 2^50 sets the 2 that are left out do not show.
    return cells * math.log(2) if cells > 50 else math.log(max(2**cells - 2, 1))
