"""A right sampler is called lossy as seldom as the tests of the statistical tier say, from fresh seed to fresh seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from rheo.methods import METHODS
from verify import eprocess, goodness
from verify.battery import BATTERY
from verify.joint import cell_of, joint_law
from verify.pit import ORDERS, kolmogorov, pit_of
from verify.subjects import TorchSubject, config_of

pytestmark = pytest.mark.stat

RUNS, SEQUENCES, ALPHA = 2_000, 400, 0.05
TIES = next(trial for trial in BATTERY if trial.name == "ties")


def alarms(seed: int) -> list[str]:
    """The tests that reject the torch sampler at ALPHA on one fresh sample."""
    subject = TorchSubject(config_of(TIES.settings), METHODS["rheo"])
    samples = subject.sample(TIES.toy, TIES.length, SEQUENCES, seed)
    law, cells = joint_law(TIES.toy, 1.0, TIES.length), cell_of(samples, TIES.toy.vocab)
    counts = np.bincount(cells, minlength=len(law))
    prefixes = [samples[:, :t] for t in range(TIES.length)]
    p, q = (np.concatenate([model(x) for x in prefixes]) for model in (TIES.toy.p, TIES.toy.q))
    tokens = samples.T.ravel()
    pit = pit_of(p, q, tokens, ORDERS["p/q"], np.random.default_rng((1, seed)))
    own = np.take_along_axis(p, tokens[:, None], 1)[:, 0]
    p_values = {
        "chi-square": goodness.chi_square(counts, law).p_value,
        "gate": goodness.tv_gate(counts, law).p_value,
        "independence": goodness.independent_rows(cells, law).p_value,
        "pit": kolmogorov(pit, own).p_value,
    }
    rejected = [test for test, p_value in p_values.items() if p_value <= ALPHA]
    return rejected + ["e-process"] * eprocess.update(eprocess.State(), pit).rejects(ALPHA)


def test_false_alarms_over_fresh_seeds_lie_inside_the_binomial_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is made for tiny alphas; at this one the chi-square tail is right with a dozen samples a cell.
    monkeypatch.setattr(goodness, "LEAST_EXPECTED", 12)
    counted = Counter(test for seed in range(RUNS) for test in alarms(seed))
    low, high = stats.binom.interval(1 - 1e-6, RUNS, ALPHA)
    assert low <= counted["chi-square"] <= high
    assert low <= counted["pit"] <= high
    for conservative in ("gate", "independence", "e-process"):
        assert counted[conservative] <= high
