"""The statistical tier: its tests keep the error rates they state, and samplers pass or fail as they should."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multitest import multipletests

from reference.methods import METHODS
from verify import eprocess, goodness, power
from verify.cases import load
from verify.controls import CONTROLS, judge
from verify.gate import DATA
from verify.joint import cell_of, count_cells, joint_law
from verify.pit import ORDERS, kolmogorov, mass_before, pit_of
from verify.random_toys import random_toy
from verify.subjects import reference, torch_sampler

pytestmark = pytest.mark.stat

LAW = np.array([0.25, 0.2, 0.2, 0.15, 0.1, 0.1])
SETTINGS = {"anchors": 1, "slots": 3, "beam": 2, "depth": 2, "budget": 5, "support": None, "temperature": "1/2"}
RUNS = 2_000


def moved(tv: float) -> NDArray[np.float64]:
    """LAW with `tv` of its mass moved, spread in proportion to the law: what chi-square sees least."""
    half = np.array([1, -1, 1, -1, 1, -1.0]) * LAW
    half[half > 0] *= tv / half[half > 0].sum()
    half[half < 0] *= tv / -half[half < 0].sum()
    return np.asarray(LAW + half)


def inside_binomial(alarms: int, runs: int, rate: float) -> bool:
    """Whether a count of alarms is one that a test with this rate shows in all but one of 10^6 trials."""
    low, high = stats.binom.interval(1 - 1e-6, runs, rate)
    return bool(low <= alarms <= high)


@pytest.mark.parametrize("test", [goodness.chi_square, goodness.g_test])
def test_a_right_sampler_is_rejected_as_often_as_alpha_says(test) -> None:  # type: ignore[no-untyped-def]
    counts = np.random.default_rng(1).multinomial(40_000, LAW, size=RUNS)
    alarms = sum(test(row, LAW).p_value < 0.05 for row in counts)
    assert inside_binomial(alarms, RUNS, 0.05)


def test_the_total_variation_gate_never_exceeds_its_alpha_with_few_samples() -> None:
    counts = np.random.default_rng(2).multinomial(50, LAW, size=RUNS)
    alarms = sum(goodness.tv_gate(row, LAW).p_value < 0.05 for row in counts)
    assert alarms <= stats.binom.ppf(1 - 1e-6, RUNS, 0.05)


def test_chi_square_misses_as_seldom_as_its_sample_size_says() -> None:
    tv, alpha, beta = 0.02, 0.01, 0.1
    samples = power.chi_square_samples(tv, alpha, beta, len(LAW))
    counts = np.random.default_rng(3).multinomial(samples, moved(tv), size=RUNS)
    p_values = stats.chisquare(counts, samples * LAW, axis=1).pvalue
    assert inside_binomial(int((p_values >= alpha).sum()), RUNS, beta)
    assert power.chi_square_detectable(samples, alpha, beta, len(LAW)) == pytest.approx(tv, rel=1e-3)


def test_the_gate_misses_no_oftener_than_its_sample_size_says() -> None:
    tv, alpha, beta = 0.05, 1e-6, 0.1
    samples = power.tv_gate_samples(tv, alpha, beta, len(LAW))
    counts = np.random.default_rng(4).multinomial(samples, moved(tv), size=RUNS)
    missed = sum(goodness.tv_gate(row, LAW).p_value >= alpha for row in counts)
    assert missed <= stats.binom.ppf(1 - 1e-6, RUNS, beta)
    assert power.tv_gate_detectable(samples, alpha, beta, len(LAW)) == pytest.approx(tv, rel=1e-3)


def test_published_sample_sizes_are_reproduced() -> None:
    assert power.chi_square_samples(1e-3, 1e-9, 1e-6, 8) == pytest.approx(3.6e7, rel=0.02)


def test_kolmogorov_misses_no_oftener_than_its_sample_size_says() -> None:
    distance, alpha, beta = 0.05, 1e-3, 0.1
    samples = power.ks_samples(distance, alpha, beta)
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(300):
        u = rng.random(samples)
        missed += kolmogorov(np.where(u < distance, 0.0, u), np.ones(samples)).p_value >= alpha
    assert missed <= stats.binom.ppf(1 - 1e-6, 300, beta)
    assert power.ks_detectable(samples, alpha, beta) == pytest.approx(distance, rel=1e-3)


def test_a_sequence_of_probability_zero_fails_at_once() -> None:
    law = np.array([0.5, 0.5, 0.0])
    for test in (goodness.chi_square, goodness.g_test, goodness.tv_gate):
        assert test(np.array([5_000, 5_000, 1]), law).p_value == 0
    assert kolmogorov(np.array([0.5]), np.array([0.0])).p_value == 0


def test_small_cells_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="total-variation gate"):
        goodness.chi_square(np.array([10, 10]), np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="total-variation gate"):
        goodness.two_sample_chi_square(np.array([10, 10]), np.array([10, 10]))


def test_two_samples_of_one_law_agree_and_of_two_laws_do_not() -> None:
    rng = np.random.default_rng(6)
    first = rng.multinomial(60_000, LAW, size=400)
    second = rng.multinomial(60_000, LAW, size=400)
    alarms = sum(goodness.two_sample_chi_square(a, b).p_value < 0.05 for a, b in zip(first, second, strict=True))
    assert inside_binomial(alarms, 400, 0.05)
    assert all(goodness.two_sample_tv_gate(a, b).p_value == 1 for a, b in zip(first[:20], second[:20], strict=True))
    other = rng.multinomial(60_000, moved(0.05))
    assert goodness.two_sample_chi_square(first[0], other).p_value < 1e-9
    assert goodness.two_sample_tv_gate(first[0], other).p_value < 1e-9


def test_rows_that_share_randomness_are_seen() -> None:
    rng = np.random.default_rng(7)
    cells = rng.choice(len(LAW), size=20_000, p=LAW)
    assert goodness.independent_rows(cells, LAW).p_value == 1
    assert goodness.independent_rows(np.repeat(cells[:10_000], 2), LAW).p_value < 1e-9


def test_holm_rejects_what_each_step_allows() -> None:
    assert power.holm([1e-9, 0.5, 0.02], 0.05) == [True, False, True]
    assert power.holm([0.03, 0.04], 0.05) == [False, False]
    assert power.holm([], 0.05) == []


def test_holm_is_that_of_statsmodels() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        p_values = (rng.random(rng.integers(1, 9)) ** 3).tolist()
        assert power.holm(p_values, 0.1) == multipletests(p_values, alpha=0.1, method="holm")[0].tolist()


@pytest.mark.parametrize("cells", [2, 9, 64])
@pytest.mark.parametrize("beta", [1e-6, 0.1])
def test_the_twins_of_chi_square_are_each_others_inverse(cells: int, beta: float) -> None:
    """What is found with the samples that find t is t, to how the solver rounds; its miss rate is beta."""
    for tv in (1e-3, 5e-3, 0.1):
        samples = power.chi_square_samples(tv, 1e-9, beta, cells)
        found = power.chi_square_detectable(samples, 1e-9, beta, cells)
        assert found == pytest.approx(tv, rel=1e-3)
        critical = stats.chi2.isf(1e-9, cells - 1)
        assert stats.ncx2.cdf(critical, cells - 1, 4 * samples * found**2) == pytest.approx(beta, rel=1e-4)


def contexts(rng: np.random.Generator, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """n contexts with p and q of their own, and a token drawn from each p."""
    p, q = rng.dirichlet(np.full(12, 0.3), size=n), rng.dirichlet(np.full(12, 0.3), size=n)
    tokens = (p.cumsum(1) < rng.random((n, 1)) * p.sum(1, keepdims=True)).sum(1)
    return p, q, np.minimum(tokens, 11)


@pytest.mark.parametrize("order", ORDERS)
def test_the_transform_of_a_right_sampler_is_uniform_in_every_order(order: str) -> None:
    rng = np.random.default_rng(8)
    alarms = 0
    for _ in range(400):
        p, q, tokens = contexts(rng, 500)
        own = np.take_along_axis(p, tokens[:, None], 1)[:, 0]
        alarms += kolmogorov(pit_of(p, q, tokens, ORDERS[order], rng), own).p_value < 0.05
    assert inside_binomial(alarms, 400, 0.05)


def test_a_sampler_that_leans_to_its_draft_shows_in_the_order_of_the_ratio() -> None:
    rng = np.random.default_rng(9)
    p, q, _ = contexts(rng, 20_000)
    mixed = 0.9 * p + 0.1 * q
    tokens = np.minimum((mixed.cumsum(1) < rng.random((20_000, 1))).sum(1), 11)
    own = np.take_along_axis(p, tokens[:, None], 1)[:, 0]
    assert kolmogorov(pit_of(p, q, tokens, ORDERS["p/q"], rng), own).p_value < 1e-9


def test_mass_before_counts_what_ranks_first_and_breaks_ties_by_id() -> None:
    p = np.array([[0.5, 0.25, 0.25], [0.2, 0.4, 0.4]])
    assert mass_before(p, p, np.array([2, 0])).tolist() == [0.75, 0.8]
    assert mass_before(p, p, np.array([0, 1])).tolist() == [0.0, 0.0]


def test_the_e_process_keeps_one_alpha_for_a_lifetime_of_looking() -> None:
    rng = np.random.default_rng(10)
    alarms = 0
    for _ in range(400):
        state = eprocess.State()
        for _ in range(5):
            state = eprocess.update(state, rng.random(400))
        alarms += state.rejects(0.05)
    assert alarms <= stats.binom.ppf(1 - 1e-6, 400, 0.05)


def test_the_e_process_finds_a_fault_and_does_not_forget_it() -> None:
    rng = np.random.default_rng(11)
    u = rng.random(20_000)
    state = eprocess.update(eprocess.State(), np.where(rng.random(20_000) < 0.1, u / 4, u))
    assert state.rejects(1e-9)
    assert eprocess.update(state, np.full(4_000, 0.5)).rejects(1e-9)


def test_a_saved_e_process_goes_on_as_if_never_stopped() -> None:
    pit = np.random.default_rng(12).random(3_000)
    whole = eprocess.update(eprocess.State(), pit)
    half = eprocess.loads(eprocess.dumps(eprocess.update(eprocess.State(), pit[:1_111])))
    resumed = eprocess.update(half, pit[1_111:])
    assert resumed == whole
    assert resumed.samples == 3_000
    for wrong in ("", "{}", '{"version": 1, "log_wealth": [0], "samples": 1, "log_peak": 0}'):
        with pytest.raises(ValueError, match="e-process"):
            eprocess.loads(wrong)
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        eprocess.update(whole, np.array([1.5]))


def test_no_gambler_can_expect_to_gain_from_uniforms() -> None:
    assert np.abs(eprocess._GAINS.mean(0) - 1).max() < 1e-14
    assert eprocess._GAINS.min() > 0


@pytest.mark.parametrize("method", METHODS)
def test_the_torch_sampler_passes_on_whole_sequences_over_several_rounds(method: str) -> None:
    toy = random_toy(3, 3, 4, "any")
    law = joint_law(toy, 0.5, 4)
    samples = torch_sampler({**SETTINGS, "method": method}).sample(toy, 4, 100_000, seed=1)
    assert goodness.tv_gate(count_cells(samples, 3), law).p_value > 1e-9
    assert goodness.independent_rows(cell_of(samples[:, :2], 3), joint_law(toy, 0.5, 2)).p_value > 1e-9
    first = count_cells(samples[:, :1], 3)
    assert goodness.chi_square(first, joint_law(toy, 0.5, 1)).p_value > 1e-9


def test_a_lossy_control_is_found_with_the_samples_that_its_total_variation_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = load(DATA / "controls" / "token-residual.json")
    settings = {key: getattr(case.config, key) for key in SETTINGS}
    length, alpha = case.config.depth + 1, 1e-6
    law = joint_law(case.toy, float(case.config.temperature), length)
    tv = float(judge(CONTROLS["token-residual"], case).tv)
    samples = power.tv_gate_samples(tv, alpha, 1e-6, len(law))
    right = reference(settings).sample(case.toy, length, samples, seed=2)
    assert goodness.tv_gate(count_cells(right, case.toy.vocab), law).p_value > alpha
    monkeypatch.setitem(METHODS, "rheo", CONTROLS["token-residual"].method)
    wrong = reference(settings).sample(case.toy, length, samples, seed=2)
    assert goodness.tv_gate(count_cells(wrong, case.toy.vocab), law).p_value < alpha


def test_subjects_give_the_same_samples_for_the_same_seed_and_others_for_another() -> None:
    toy = random_toy(5, 4, 2, "mixed")
    for factory in (reference, torch_sampler):
        subject = factory(SETTINGS)
        first = subject.sample(toy, 5, 50, seed=1)
        assert first.shape == (50, 5)
        assert np.array_equal(first, subject.sample(toy, 5, 50, seed=1))
        assert not np.array_equal(first, subject.sample(toy, 5, 50, seed=2))


def test_cells_refuse_what_is_no_sample() -> None:
    wrongs: list[Any] = [np.zeros((2, 2)), np.zeros(3, dtype=int), np.array([[0, 3]]), np.array([[-1, 0]])]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="samples"):
            cell_of(wrong, 3)
    assert math.isclose(joint_law(random_toy(1, 3, 2, "zeros"), 1.0, 3).sum(), 1.0)
