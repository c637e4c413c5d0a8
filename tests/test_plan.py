"""What a run decides beforehand: how much to sample, when to look, with how much of alpha."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from verify.battery import BATTERY, Trial
from verify.executors import Here
from verify.findings import record, verdict
from verify.goodness import PAIRINGS, Evidence
from verify.joint import Toy as ToyProtocol
from verify.joint import joint_law
from verify.plan import MOST_CELLS, Claims, Plan, detectable, needed, planned, shards_of
from verify.run import Progress, begun, run
from verify.subjects import Subject, reference
from verify.tally import added, empty, independence_tests, joint_tests, look_at
from verify.toys import Table, Toy

from . import samplers

pytestmark = pytest.mark.stat

LOOSE = Claims(tv=0.05, alpha=1e-6, beta=1e-3)
BY_NAME = {trial.name: trial for trial in BATTERY}
SMALL = [min(BATTERY, key=lambda trial: trial.cells)]


def carried_out(plan: Plan) -> Progress:
    *_, last = run(plan, Here(), 1)
    return last


def test_every_trial_of_the_battery_has_few_enough_cells_and_several_rounds() -> None:
    assert len({trial.name for trial in BATTERY}) == len(BATTERY)
    for trial in BATTERY:
        assert trial.cells <= MOST_CELLS
        assert trial.length >= 2


def test_shards_of_all_looks_are_what_the_plan_says_and_never_overlap() -> None:
    plan = planned("nobody:knows", BATTERY, Claims(), 0)
    for place, sizes in enumerate(plan.sizes):
        shards = [[s for s in shards_of(plan, look) if s.place == place] for look in range(plan.looks)]
        assert [sum(s.count for s in look) for look in shards] == np.diff([0, *sizes]).tolist()
        numbers = [s.number for look in shards for s in look]
        assert numbers == list(range(len(numbers)))
        assert len({s.sampler_seed for look in shards for s in look}) == len(numbers)


def test_the_shares_of_alpha_add_up_to_no_more_than_alpha() -> None:
    for claims in (Claims(), LOOSE, Claims(tv=0.3)):
        plan = planned("nobody:knows", BATTERY, claims, 0)
        spent = sum(
            plan.alpha(family, look) for family in ("joint", "independence", "pit") for look in range(plan.looks)
        )
        assert 0.9 * claims.alpha < spent <= claims.alpha * (1 + 1e-12)


@pytest.mark.parametrize("claims", [Claims(), LOOSE], ids=["default", "loose"])
def test_the_planned_samples_find_what_the_claims_say(claims: Claims) -> None:
    plan = planned("nobody:knows", BATTERY, claims, 0)
    for law, sizes in zip(plan.laws, plan.sizes, strict=True):
        share = plan.alpha("joint", plan.looks - 1) / len(BATTERY)
        assert detectable(law, sizes[-1], share, claims.beta) <= claims.tv * 1.001
        assert detectable(law, sizes[-1] // 2, share, claims.beta) > claims.tv


def test_a_law_whose_least_cell_expects_just_enough_is_tested_as_planned() -> None:
    for weights in ((1, 21), (1, 3, 6, 14)):
        trial = Trial("edge", Toy(len(weights), Table(weights, {}), Table(weights, {})), 2)
        plan = planned(samplers.right, (trial,), Claims(), 0)
        (law,), samples = plan.laws, plan.sizes[0][-1]
        counts = np.random.default_rng(0).multinomial(samples, law / law.sum())
        (evidence,) = joint_tests(replace(empty(trial), cells=counts), law, len(weights))
        assert evidence.test == "chi-square"
        assert detectable(law, samples, 1e-10, 1e-6) <= 5.1e-3


def test_a_law_of_one_sequence_needs_the_samples_that_meet_another_with_the_wanted_probability() -> None:
    claims = Claims(tv=0.01, beta=1e-3)
    n = needed(np.array([0.0, 1.0]), claims)
    assert (1 - claims.tv) ** n <= claims.beta < (1 - claims.tv) ** (n - 1)


def test_the_verdict_does_not_depend_on_the_order_of_shards() -> None:
    plan = planned(samplers.right, SMALL, LOOSE, 3)
    last = carried_out(plan)
    shuffled = empty(plan.trials[0])
    from verify.shards import count

    shards = [shard for look in range(plan.looks) for shard in shards_of(plan, look)]
    for shard in reversed(shards):
        shuffled = added(shuffled, count(shard))
    assert np.array_equal(shuffled.cells, last.tallies[0].cells)
    assert np.array_equal(shuffled.pairs, last.tallies[0].pairs)
    assert shuffled.digests == last.tallies[0].digests
    assert verdict(plan, last) == "lossless"


def test_a_right_sampler_is_lossless_and_one_with_a_dial_is_lossy_from_the_claimed_deviation_on() -> None:
    claims = Claims(tv=0.1, alpha=1e-6, beta=1e-3)
    plan = planned(samplers.right, BATTERY, claims, 0)
    assert verdict(plan, carried_out(plan)) == "lossless"
    trials = [replace(trial, settings={**trial.settings, "dial": claims.tv}) for trial in BATTERY]
    for trial in trials:  # each on its own
        plan = planned(samplers.right, [trial], claims, 1)
        assert verdict(plan, carried_out(plan)) == "lossy", trial.name


def test_the_reference_is_never_flagged_at_a_tiny_alpha() -> None:
    plan = planned(reference, BATTERY[:2], Claims(tv=0.3, alpha=1e-9), 0)
    assert verdict(plan, carried_out(plan)) == "lossless"


@pytest.mark.parametrize(
    ("how", "family", "test"),
    [
        ("seedless", "independence", "repeated shards"),
        ("shares", "independence", "independence of neighbours"),
        ("offset", "independence", "independence of neighbours from the second"),
        ("two-apart", "independence", "independence of rows two apart"),
        ("tiled", "independence", "independence of halves"),
        ("mirrored", "independence", "independence of halves mirrored"),
        ("impossible", "joint", "impossible"),
    ],
)
def test_randomness_that_is_not_fresh_and_tokens_that_cannot_be_are_found_and_named(
    how: str, family: str, test: str
) -> None:
    toy = Toy(3, Table((2, 1, 0), {}), Table((1, 1, 1), {}))
    trial = Trial("last-is-impossible", toy, 2, {"how": how})
    plan = planned(samplers.wrong, [trial], Claims(tv=0.01), 0)
    last = carried_out(plan)
    found = {(t.family, t.evidence.test) for t in last.tests if t.rejected}
    assert (family, test) in found
    assert record(plan, last, "wrong")["guess"]


def token_by_token(settings: dict[str, Any]) -> Subject:
    """A right sampler whose generator starts anew at every call, drawing first all first tokens, then all second."""

    class Seedless:
        def sample(self, toy: ToyProtocol, length: int, count: int, seed: int) -> NDArray[np.int64]:
            generator = np.random.default_rng(7)
            p = toy.p(np.zeros((1, 0), dtype=np.int64))[0]
            return np.stack([generator.choice(len(p), count, p=p / p.sum()) for _ in range(length)], axis=1)

    return Seedless()


def test_a_seed_that_is_not_used_shows_between_shards_of_different_sizes() -> None:
    plan = planned(token_by_token, [BY_NAME["reversed"]], Claims(tv=0.02), 0)
    assert len({shard.count for look in range(plan.looks) for shard in shards_of(plan, look)}) == 5
    tests = {test.evidence.test for test in carried_out(plan).tests if test.rejected}
    assert tests == {"repeated shards"}


def test_rows_that_complement_each_other_are_found_though_each_is_right() -> None:
    toy = Toy(3, Table((2, 1, 1), {}), Table((1, 1, 1), {}))
    plan = planned(samplers.wrong, [Trial("even", toy, 3, {"how": "even"})], Claims(tv=0.005), 0)
    last = carried_out(plan)
    assert {t.evidence.test for t in last.tests if t.rejected} == {"too even"}
    assert "complement" in record(plan, last, "even")["guess"]


def test_two_shards_that_must_be_the_same_are_no_evidence() -> None:
    toy = Toy(2, Table((1, 0), {}), Table((1, 1), {}))
    plan = planned(samplers.right, [Trial("certain", toy, 2, {})], Claims(), 0)
    last = carried_out(plan)
    assert verdict(plan, last) == "lossless"
    assert independence_tests(last.tallies[0], plan.laws[0], 2)[-1].p_value == 1


def test_no_test_is_left_out_at_its_look() -> None:
    plan = planned(samplers.right, BATTERY, LOOSE, 0)
    last = carried_out(plan)
    assert last.looks == plan.looks
    for look in range(plan.looks):
        due = [(t.trial, t.family) for t in last.tests if t.look == look]
        for place in range(len(BATTERY)):
            assert due.count((place, "joint")) == 1
            # Whether counts are too even can be asked in full cells alone.
            assert due.count((place, "independence")) - len(PAIRINGS) in (1, 2)
            assert due.count((place, "pit")) == (3 if look == 0 else 0)


def test_time_that_runs_out_is_inconclusive_and_says_how_much_is_missing() -> None:
    plan = planned(samplers.right, BATTERY, Claims(), 0)
    *_, last = run(plan, Here(), 1, limit=1e-9)
    assert verdict(plan, last) == "inconclusive"
    missing = record(plan, last, "right")["seconds_missing"]
    assert missing == pytest.approx((plan.sequences - last.sequences) * last.seconds / last.sequences, rel=0.1, abs=0.1)
    assert verdict(plan, begun(plan)) == "inconclusive"


def test_a_trial_with_too_many_cells_is_refused() -> None:
    toy = Toy(5, Table((1,) * 5, {}), Table((1,) * 5, {}))
    with pytest.raises(ValueError, match="125 cells"):
        planned(samplers.right, [Trial("large", toy, 3, {})], Claims(), 0)


def test_the_laws_are_those_of_the_settings_temperature() -> None:
    trial = Trial("t", Toy(2, Table((3, 1), {}), Table((1, 1), {})), 1, {"temperature": "1/2"})
    (law,) = planned(samplers.right, [trial], LOOSE, 0).laws
    assert law == pytest.approx([0.9, 0.1])
    assert np.array_equal(law, joint_law(trial.toy, float(Fraction("1/2")), 1))


def test_holm_runs_over_the_trials_of_a_family() -> None:
    plan = planned(samplers.right, BATTERY, LOOSE, 0)
    tallies = []
    for trial, law in zip(plan.trials, plan.laws, strict=True):
        tally = empty(trial)
        tallies.append(replace(tally, cells=np.round(law * 1e6).astype(np.int64), pairs=tally.pairs))
    assert not any(test.rejected for test in look_at(plan, tallies, plan.looks - 1) if test.family == "joint")
    evidence = joint_tests(tallies[0], plan.laws[0], 3)[0]
    assert isinstance(evidence, Evidence)
    swapped = tallies[0].cells[::-1].copy()
    tests = look_at(plan, [replace(tallies[0], cells=swapped), *tallies[1:]], plan.looks - 1)
    assert [t.trial for t in tests if t.rejected and t.family == "joint"] == [0]


def test_a_toy_of_one_token_has_a_record() -> None:
    plan = planned(samplers.right, [Trial("one", Toy(1, Table((1,), {}), Table((1,), {})), 2, {})], Claims(tv=0.1), 0)
    (trial,) = record(plan, carried_out(plan), "right")["trials"]
    assert trial["worst_cell"]["sequence"] == [0, 0]
