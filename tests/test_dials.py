"""The controls with a dial have the total variation that they say, and are missed as seldom as the harness claims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from verify import goodness, power
from verify.battery import BATTERY
from verify.contract import load
from verify.dials import against_mixture, blended, mixture, moved, weight_of
from verify.joint import count_cells, joint_law
from verify.subjects import config_of

pytestmark = pytest.mark.stat

RUNS = 300
TIES = next(trial for trial in BATTERY if trial.name == "ties")
LAW = joint_law(TIES.toy, 1.0, TIES.length)


def tv(law: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(law - other).sum() / 2)


def misses(factory: Any, test: Any, dial: float, alpha: float, samples: int) -> int:
    """How many of RUNS samples of so many sequences do not make the test reject."""
    subject = factory({**TIES.settings, "dial_tv": dial})
    counts = (count_cells(subject.sample(TIES.toy, TIES.length, samples, seed), TIES.toy.vocab) for seed in range(RUNS))
    return sum(test(row, LAW).p_value >= alpha for row in counts)


def few_enough(count: int, beta: float) -> bool:
    return count <= float(stats.binom.ppf(1 - 1e-6, RUNS, beta))


@pytest.mark.parametrize("trial", BATTERY, ids=lambda trial: trial.name)
@pytest.mark.parametrize("dial", [1e-3, 5e-3, 0.05])
def test_a_dial_is_the_total_variation_of_whole_sequences_on_every_toy(trial: Any, dial: float) -> None:
    temperature = float(config_of(trial.settings).temperature)
    law = joint_law(trial.toy, temperature, trial.length)
    assert tv(moved(law, dial), law) == pytest.approx(dial, rel=1e-9)
    assert moved(law, dial).min() >= 0
    assert moved(law, dial).sum() == pytest.approx(1, abs=1e-12)
    weight = weight_of(trial.toy, temperature, trial.length, dial)
    assert tv(blended(trial.toy, temperature, trial.length)(weight), law) == pytest.approx(dial, rel=1e-9)


def test_on_one_token_the_weight_is_what_the_formula_says() -> None:
    p, q = (joint[0] for joint in (TIES.toy.p(np.zeros((1, 0), int)), TIES.toy.q(np.zeros((1, 0), int))))
    assert weight_of(TIES.toy, 1.0, 1, 0.01) == pytest.approx(1 - 0.01 / tv(p, q), rel=1e-9)


@pytest.mark.parametrize("spec", ["mixture", "against_mixture"])
def test_samples_of_a_dial_follow_the_law_that_it_claims(spec: str) -> None:
    dial = 0.1
    subject = load(f"verify.dials:{spec}")({**TIES.settings, "dial_tv": dial})
    laws = {
        "mixture": moved(LAW, dial),
        "against_mixture": blended(TIES.toy, 1.0, 2)(weight_of(TIES.toy, 1.0, 2, dial)),
    }
    counts = count_cells(subject.sample(TIES.toy, TIES.length, 200_000, 1), TIES.toy.vocab)
    assert goodness.chi_square(counts, laws[spec]).p_value > 1e-9
    assert goodness.tv_gate(counts, LAW).statistic == pytest.approx(dial, abs=0.01)


def test_chi_square_misses_a_dialled_sampler_as_often_as_its_twin_says_and_oftener_with_fewer_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The limit is made for tiny alphas; at this one a few hundred samples a cell are enough.
    monkeypatch.setattr(goodness, "LEAST_EXPECTED", 500)
    dial, alpha, beta = 0.01, 0.01, 0.1
    samples = power.chi_square_samples(dial, alpha, beta, len(LAW))
    missed = misses(mixture, goodness.chi_square, dial, alpha, samples)
    low, high = stats.binom.interval(1 - 1e-6, RUNS, beta)
    assert low <= missed <= high
    assert misses(mixture, goodness.chi_square, dial, alpha, samples // 3) > high


@pytest.mark.parametrize(("factory", "dial"), [(mixture, 0.02), (against_mixture, 0.1)])
def test_the_gate_misses_a_dialled_sampler_no_oftener_than_its_twin_says(factory: Any, dial: float) -> None:
    alpha, beta = 0.01, 0.1
    samples = power.tv_gate_samples(dial, alpha, beta, len(LAW))
    assert few_enough(misses(factory, goodness.tv_gate, dial, alpha, samples), beta)
    assert not few_enough(misses(factory, goodness.tv_gate, dial, alpha, samples // 3), beta)


def test_a_dial_that_a_toy_cannot_show_is_refused_with_what_it_can() -> None:
    for factory in (mixture, against_mixture):
        for dial in (-0.1, 0.9):
            with pytest.raises(ValueError, match="dial_tv: must"):
                factory({**TIES.settings, "dial_tv": dial}).sample(TIES.toy, TIES.length, 10, 1)
    with pytest.raises(ValueError, match="dial_tv"):
        moved(np.array([1.0, 0.0]), 0.1)
