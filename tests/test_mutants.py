"""Every mutant is caught, by the tiers that the committed table names; no right sampler is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from reference.choose import Choose
from reference.distributions import Array
from reference.methods import METHODS as REFERENCE
from reference.methods import PAPER, SLOTTED, Method
from reference.rules import RULES, Rule
from reference.rules.children import Children, Verdict, try_points
from rheo.decoding import Pair, Sampler
from verify import mutants, tiers
from verify.battery import BATTERY
from verify.contract import SamplerError, load
from verify.goodness import tv_gate
from verify.joint import count_cells, joint_law
from verify.laws import exact_law, target_of, total_variation
from verify.mutants import MUTANTS
from verify.mutants.mutant import Mutant, with_pair
from verify.mutants.targets import StalePair
from verify.mutants_table import PAGE, read, record, renewed, table
from verify.prefix_table import PrefixPair
from verify.subjects import TorchSubject
from verify.tiers import TIERS, ask, cases

pytestmark = pytest.mark.stat

CLAIMED = read(PAGE.read_text(encoding="utf-8"))
RIGHT = {method: Mutant(method, "nothing", "nothing", method) for method in SLOTTED}
# Of each pattern of tiers that see it and tiers that do not, but the slowest.
HANDFUL = ("never_refreshed", "neighbours_share_a_stream", "cache_not_rolled_back", "ties_by_token", "token_residual")


def said(records: dict[str, Any]) -> tuple[set[str], str | None]:
    return {tier for tier, finding in records["tiers"].items() if finding["caught"]}, records["cheapest"]


def test_there_are_thirty_mutants_or_more_of_every_method_and_the_table_has_them_all() -> None:
    assert len(MUTANTS) >= 30
    assert list(CLAIMED) == list(MUTANTS)
    assert {mutant.method for mutant in MUTANTS.values()} >= set(PAPER)
    assert len({(m.fault, m.symptom) for m in MUTANTS.values()}) == len(MUTANTS)
    assert not {m.name for m in MUTANTS.values()} & set(vars(mutants))


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught_by_the_cheapest_tier_that_the_table_names(name: str) -> None:
    _, cheapest = CLAIMED[name]
    assert cheapest is not None
    assert ask(cheapest, MUTANTS[name]).caught


@pytest.mark.parametrize("name", HANDFUL)
def test_the_table_says_what_the_tiers_say(name: str) -> None:
    assert said(record(MUTANTS[name])) == CLAIMED[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in HANDFUL])
def test_the_whole_table_says_what_the_tiers_say(name: str) -> None:
    assert said(record(MUTANTS[name])) == CLAIMED[name]


def test_samples_show_every_mutant_but_the_one_that_differs_nowhere_but_at_a_coin_of_zero() -> None:
    assert {name for name, (seen, _) in CLAIMED.items() if "statistical" not in seen} == {"accepts_on_at_most"}


def test_single_rounds_show_neither_shared_numbers_nor_what_is_kept_from_the_round_before() -> None:
    unseen = {name for name, (seen, _) in CLAIMED.items() if not seen & {"exact", "parity"}}
    assert unseen == {
        "never_refreshed",
        "rows_share_a_stream",
        "neighbours_share_a_stream",
        "last_token_not_cached",
        "cache_not_rolled_back",
    }


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("method", RIGHT)
def test_no_right_sampler_is_flagged_by_any_tier(method: str, tier: str) -> None:
    finding = ask(tier, RIGHT[method])
    assert not finding.caught, finding.detail
    assert finding.rounds > 1_000


def test_a_sampled_draft_verified_as_one_hot_is_lossless_and_so_no_mutant() -> None:
    def points(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
        probe = () if children.probe is None else (children.probe,)
        return try_points(p, (*probe, *children.anchors, *children.fillers), choose, depth, first=0)

    as_one_hot = Method(REFERENCE["rheo"].growth, Rule(points, RULES["probe_first"].single_draw))
    accepted = []
    for case in cases():
        law, _ = exact_law(case, as_one_hot)
        assert total_variation(law, target_of(case), case.config.depth + 1) == 0
        accepted.append(law.accepted < exact_law(case, REFERENCE["rheo"])[0].accepted)
    assert any(accepted)


def test_a_draft_with_a_stale_cache_is_lossless_and_so_no_mutant() -> None:
    def stale(sampler: Sampler, pair: Pair) -> Pair:
        assert isinstance(pair, PrefixPair)
        before = (pair.state - 1).clamp(min=0) // pair.table.target.shape[1]
        return StalePair(replace(pair, state=before), pair)

    trial = next(trial for trial in BATTERY if trial.name == "contexts")
    samplers = (RIGHT["rheo"], replace(RIGHT["rheo"], play=with_pair(stale)))
    fresh, late = (
        count_cells(sampler.subject(trial.settings).sample(trial.toy, trial.length, 100_000, 1), trial.toy.vocab)
        for sampler in samplers
    )
    assert not np.array_equal(fresh, late)
    assert tv_gate(late, joint_law(trial.toy, 1.0, trial.length)).p_value > 1e-9


def test_a_mutant_is_found_by_its_name_as_any_sampler_is() -> None:
    subject = load("verify.mutants:coin_as_draw")({**BATTERY[0].settings, "temperature": "1/2"})
    assert isinstance(subject, TorchSubject)
    assert subject.play is MUTANTS["coin_as_draw"].play
    assert float(subject.config.temperature) == 0.5
    with pytest.raises(SamplerError, match="no factory nobody"):
        load("verify.mutants:nobody")


def test_the_cheapest_tier_is_that_of_the_fewest_rounds_the_more_exact_among_equals() -> None:
    def finding(caught: bool, rounds: int) -> tiers.Finding:
        return tiers.Finding(caught, rounds, 0.0, "")

    found = dict(zip(TIERS, (finding(True, 9), finding(False, 1), finding(True, 5), finding(True, 5)), strict=True))
    assert tiers.cheapest(found) == "statistical"
    assert tiers.cheapest(dict.fromkeys(TIERS, finding(False, 1))) is None


def test_a_page_keeps_all_but_its_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    short = record(MUTANTS["greedy_bonus"])
    shorter = renewed(page, table([short]))
    assert read(shorter) == {"greedy_bonus": CLAIMED["greedy_bonus"]}
    assert shorter.splitlines()[:5] == page.splitlines()[:5]
    assert shorter.splitlines()[-5:] == page.splitlines()[-5:]
    with pytest.raises(ValueError, match="no place"):
        renewed("# Mutants", table([short]))


def test_tiers_leave_torchs_own_randomness_alone() -> None:
    before = torch.get_rng_state()
    ask("statistical", MUTANTS["token_residual"])
    assert torch.equal(before, torch.get_rng_state())
