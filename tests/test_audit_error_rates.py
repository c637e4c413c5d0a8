"""The tests of an audit err no oftener than they say, and what they draw at random is uniform."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tests.traces import ALPHA, BETA, rows
from verify import eprocess, lifetime, trace
from verify.lifetime import BINS, Lifetime, Plan, count, findings, kolmogorov, uniforms
from verify.power import ks_detectable

pytestmark = pytest.mark.stat


def test_the_e_process_raises_no_more_false_alarms_than_alpha_over_many_short_lives() -> None:
    rng = np.random.default_rng(3)
    alarms = sum(eprocess.update(eprocess.State(), rng.random(2_560)).rejects(0.05) for _ in range(2_000))
    assert alarms <= stats.binom.ppf(1 - 1e-6, 2_000, 0.05)


def tilted(rng: np.random.Generator, n: int, tilt: float) -> NDArray[np.float64]:
    """n values of density 1 + tilt cos(pi u)."""
    u, v = rng.random((2, 2 * n))
    kept = u[v * (1 + abs(tilt)) < 1 + tilt * np.cos(np.pi * u)][:n]
    assert len(kept) == n
    return np.asarray(kept)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_e_process_misses_no_oftener_than_its_detectable_distance_says(sign: int) -> None:
    rng, samples, alpha, beta = np.random.default_rng(4), 20_000, 1e-3, 0.1
    distance = eprocess.detectable(samples, alpha, beta)
    assert distance is not None
    missed, half = 0, 0
    for _ in range(300):
        missed += not eprocess.update(eprocess.State(), tilted(rng, samples, sign * math.pi * distance)).rejects(alpha)
        half += eprocess.update(eprocess.State(), tilted(rng, samples, sign * math.pi * distance / 2)).rejects(alpha)
    assert missed <= stats.binom.ppf(1 - 1e-6, 300, beta)
    assert half < 150  # the distance is not stated larger than it has to be


def test_too_few_samples_detect_nothing() -> None:
    assert eprocess.detectable(0, ALPHA, BETA) is None
    assert eprocess.detectable(eprocess.BLOCK, ALPHA, BETA) is None
    distances = [eprocess.detectable(10**n, ALPHA, BETA) for n in range(4, 10)]
    assert all(d is not None and 0 < d < 1 / math.pi for d in distances)
    assert distances == sorted(distances, key=lambda d: -(d or 0))


def test_the_histogram_gives_a_lower_bound_of_the_kolmogorov_distance_and_of_its_evidence() -> None:
    rng = np.random.default_rng(5)
    for n in (10, 1_000, 100_000):
        u = rng.random(n) ** 1.02
        distance, p_value = kolmogorov(np.bincount((u * BINS).astype(int), minlength=BINS))
        exact = stats.kstest(u, "uniform")
        assert exact.statistic - 1 / BINS <= distance <= exact.statistic + 1e-12
        assert p_value >= exact.pvalue


def test_the_kolmogorov_test_misses_no_oftener_than_it_says() -> None:
    rng, samples, alpha, beta = np.random.default_rng(6), 5_000, 1e-3, 0.1
    distance, missed = ks_detectable(samples, alpha, beta) + 1 / BINS, 0
    for _ in range(300):
        u = rng.random(samples)
        u = np.where(u < distance, 1 / (2 * BINS), u)  # the mass between the edges of a bin
        missed += kolmogorov(np.bincount((u * BINS).astype(int), minlength=BINS))[1] > alpha
    assert missed <= stats.binom.ppf(1 - 1e-6, 300, beta)


def test_both_tests_together_keep_alpha() -> None:
    rng, alarms = np.random.default_rng(7), 0
    for seed in range(500):
        values = rows(1_024, seed=int(rng.integers(2**31)))
        chunk = trace.Chunk(values, np.arange(1_024), "row", 1.0)
        state = count(Lifetime(Plan(0.1, seed, 1_024)), chunk, "x")
        found = findings(state, BETA)
        assert [finding.alpha for finding in found] == [0.05, 0.05]
        assert found[1].detectable == ks_detectable(1_024, 0.05, BETA) + 1 / BINS
        alarms += lifetime.verdict(state, found) == "lossy"
    assert alarms <= stats.binom.ppf(1 - 1e-6, 500, 0.1)


def test_the_randomisers_are_uniform_independent_and_a_function_of_seed_and_number() -> None:
    u = uniforms(1, 0, 100_000)
    assert stats.kstest(u, "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.02
    assert u.min() >= 0
    assert u.max() < 1
    for first in (0, 1, 2, 3, 4, 77, 99_990):
        assert np.array_equal(uniforms(1, first, 10), u[first : first + 10])
    assert not np.array_equal(uniforms(2, 0, 10), u[:10])
