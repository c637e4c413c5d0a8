"""Strata of contexts, and guesses at faults: what pooling hides, and what a deviation looks like."""

from __future__ import annotations

import numpy as np
import pytest

from verify.battery import BATTERY, Trial
from verify.executors import Here
from verify.findings import record
from verify.guess import explain, first_deviating
from verify.joint import joint_law
from verify.pit import ORDERS, STRATA, by_agreement, by_entropy, kolmogorov, kolmogorov_by_stratum, pit_of
from verify.plan import Claims, planned
from verify.power import holm
from verify.run import run
from verify.toys import Table, Toy

from . import samplers

pytestmark = pytest.mark.stat


def test_strata_run_from_no_choice_to_any_and_from_disjoint_to_equal() -> None:
    p = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    q = np.array([[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0.25, 0.25, 0.25, 0.25]])
    assert by_entropy(p, q).tolist() == [0, 2, 3]
    assert by_agreement(p, q).tolist() == [0, 2, 3]


def test_faults_that_cancel_in_the_pool_are_found_in_strata() -> None:
    """Half of the contexts lean to the first token, the others as much to the last."""
    rng, n = np.random.default_rng(0), 40_000
    sharp = np.arange(n) % 2 == 0
    p = np.where(sharp[:, None], [0.9, 0.1], [0.5, 0.5])
    seen = p[:, 0] + np.where(sharp, 0.05, -0.05)
    tokens = (rng.random(n) >= seen).astype(np.int64)
    pit = pit_of(p, p, tokens, ORDERS["p"], rng)
    apart = kolmogorov_by_stratum(pit, p, p, tokens, STRATA["entropy"])
    assert len(apart) == 2
    assert all(holm([evidence.p_value for evidence in apart.values()], 1e-9))
    right = (rng.random(n) >= p[:, 0]).astype(np.int64)
    clean = kolmogorov_by_stratum(pit_of(p, p, right, ORDERS["p"], rng), p, p, right, STRATA["entropy"])
    assert not any(holm([evidence.p_value for evidence in clean.values()], 1e-6))
    own = np.take_along_axis(p, tokens[:, None], axis=1)[:, 0]
    assert kolmogorov(pit, own).statistic < min(evidence.statistic for evidence in apart.values())


TOY = Toy(3, Table((6, 3, 1), {(0,): (1, 3, 6), (1,): (2, 2, 6)}), Table((1, 2, 3), {(0,): (4, 1, 1)}))
TRIAL = Trial("toy", TOY, 2, {})


def counted(first: np.ndarray, then: list[np.ndarray]) -> np.ndarray:
    """Counts [V, V] of two tokens, as exact as integers are."""
    return np.asarray(np.round(1e7 * first[:, None] * np.array(then)), dtype=np.int64)


P = [np.array(w) / 10 for w in ((6, 3, 1), (1, 3, 6), (2, 2, 6))]
AFTER = [P[1], P[2], P[0]]


@pytest.mark.parametrize(
    ("first", "then", "position", "words"),
    [
        (0.8 * P[0] + 0.2 * np.array([1, 2, 3]) / 6, AFTER, 0, "towards the draft"),
        (P[0] ** 2 / sum(P[0] ** 2), AFTER, 0, "temperature 0.50"),
        (P[0], [P[0], P[0], P[0]], 1, "the parent's row"),
        (P[0], [P[2], P[0], P[1]], 1, "a sibling's row"),
    ],
)
def test_a_guess_names_the_story_behind_a_deviation(
    first: np.ndarray, then: list[np.ndarray], position: int, words: str
) -> None:
    seen = counted(first, then)
    assert first_deviating(seen, joint_law(TOY, 1.0, 2).reshape(3, 3)) == position
    story = explain(TRIAL, seen, position)
    assert story is not None
    assert words in story


def test_no_story_is_told_of_what_none_explains() -> None:
    assert explain(TRIAL, counted(np.array([0.5, 0.2, 0.3]), AFTER), 0) is None


def test_the_record_of_a_lossy_run_holds_a_guess_and_the_cell_that_is_furthest_off() -> None:
    trial = next(trial for trial in BATTERY if trial.name == "contexts")
    plan = planned(samplers.right, [Trial("dial", trial.toy, trial.length, {"dial": 0.2})], Claims(tv=0.1), 0)
    *_, last = run(plan, Here(), 1)
    found = record(plan, last, "right")
    cell = found["trials"][0]["worst_cell"]
    assert cell["observed"] == pytest.approx(cell["expected"] + 0.2, abs=0.1)
    assert cell["p_value"] < 1e-9
    assert found["guess"].startswith("deviates from")
