"""The most a node can accept, who attains it, and how the rules compare over whole trees: exactly."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from reference.distributions import Array, Number, exact, normalise, temper
from reference.methods import METHODS, PAPER, SLOTTED, Method
from reference.slots import SlotPlan
from rheo.config import Config
from verify.cases import Case
from verify.counterexamples import NAMES, counterexample
from verify.laws import classes_of, exact_law, target_of, total_variation
from verify.random_toys import random_toy
from verify.toys import Table, Toy, Weights
from verify.transport import (
    CandidateSets,
    Tally,
    bound,
    candidate_sets,
    compare,
    min_cut,
    node_acceptance,
    node_trees,
    root_acceptance,
    slot_plan,
    tally,
)

pytestmark = pytest.mark.exact

RHEO, RRSW, TOPK = METHODS["rheo"], METHODS["rrsw"], METHODS["topk"]


@dataclass(frozen=True)
class NodeCase:
    """One node: p [vocab] at its temperature, untempered draft weights [vocab], settings."""

    p: Array
    draft: Array
    config: Config

    def plan(self, method: Method = RHEO) -> SlotPlan:
        return slot_plan(self.draft, self.config, method)

    def acceptance(self, method: Method, fillers: list[int] | None = None) -> Number:
        return node_acceptance(self.p, self.draft, self.config, method, fillers)


def weights(rng: random.Random, vocab: int) -> Weights:
    """Integer weights of one of the shapes that break samplers: spread, with zeros, tied, one-hot."""
    shapes: list[Callable[[], list[int]]] = [
        lambda: [rng.randint(1, 9) for _ in range(vocab)],
        lambda: [rng.choice((0, 0, 1, 2, 5)) for _ in range(vocab)],
        lambda: [rng.choice((1, 2)) for _ in range(vocab)],
        lambda: [int(token == hot) for hot in [rng.randrange(vocab)] for token in range(vocab)],
    ]
    row = rng.choices(shapes, weights=(4, 4, 2, 1))[0]()
    return tuple(row) if any(row) else weights(rng, vocab)


def node_case(rng: random.Random, vocab: int | None = None) -> NodeCase:
    vocab = vocab or rng.randint(2, 7)
    target, draft = weights(rng, vocab), weights(rng, vocab)
    if rng.random() < 0.1:  # nothing in common, where both can live beside each other
        split = rng.randrange(1, vocab)
        target = tuple(w + 1 if token < split else 0 for token, w in enumerate(target))
        draft = tuple(w + 1 if token >= split else 0 for token, w in enumerate(draft))
    slots = rng.randint(1, 4)
    config = Config(
        anchors=rng.randrange(slots),
        slots=slots,
        support=rng.choice((None, None, rng.randint(1, vocab))),
        temperature=rng.choice((Fraction(1), Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(0))),
    )
    return NodeCase(temper(exact(target), config.temperature), exact(draft), config)


def node_cases(count: int, seed: int, vocab: int | None = None) -> list[NodeCase]:
    rng = random.Random(seed)
    return [node_case(rng, vocab) for _ in range(count)]


def tree_cases(count: int, kind: str, slots: int, budget: int, anchors: int = 1) -> list[Case]:
    """Random toys over four tokens for trees of depth two."""
    config = Config(anchors=anchors, slots=slots, beam=2, depth=2, budget=budget, support=None)
    return [Case(f"{kind}-{seed}", random_toy(seed, 4, 1, kind), config) for seed in range(count)]


def by_subsets(p: Array, sets: CandidateSets) -> Number:
    """1 + min over H of p(H) - Q(H): what the flow must find, over every set of tokens H."""
    halves = [frozenset(h) for size in range(len(p) + 1) for h in combinations(range(len(p)), size)]
    inside: list[Number] = [sum(mass for tokens, mass in sets.items() if tokens <= h) for h in halves]
    least: Number = min(p[list(h)].sum() - mass for h, mass in zip(halves, inside, strict=True))
    return 1 + least


def closed_form_misses(cases: list[NodeCase], change: Callable[[SlotPlan], SlotPlan]) -> int:
    """At how many nodes the closed form, from a changed plan, is not the min cut of the true candidates."""
    return sum(bound(c.p, change(c.plan())) != min_cut(c.p, candidate_sets(node_trees(c.plan()))) for c in cases)


# One node


@pytest.mark.parametrize("method", [RHEO, TOPK], ids=["rheo", "topk"])
def test_closed_form_equals_the_min_cut(method: Method) -> None:
    for case in node_cases(1000, seed=1):
        plan = case.plan(method)
        assert bound(case.p, plan) == min_cut(case.p, candidate_sets(node_trees(plan))), case


def test_the_grid_of_nodes_meets_every_regime() -> None:
    cases = node_cases(1000, seed=1)
    plans = [case.plan() for case in cases]
    assert {case.config.slots for case in cases} == {1, 2, 3, 4}
    assert {case.config.anchors for case in cases} == {0, 1, 2, 3}
    assert {case.config.temperature for case in cases} == {0, Fraction(1, 3), Fraction(1, 2), 1}
    assert any(plan.proxy is None for plan in plans)
    assert any(len(plan.anchors) < case.config.anchors for plan, case in zip(plans, cases, strict=True))
    assert any(0 < len(plan.tail) <= plan.slots - len(plan.anchors) - 1 for plan in plans)
    assert any(len(plan.tail) > plan.slots - len(plan.anchors) > 1 for plan in plans)
    assert any(not (case.p * case.draft).any() for case in cases)
    assert any(max(case.p) == 1 for case in cases) and any(len(set(case.draft)) == 1 for case in cases)


def test_a_closed_form_with_the_wrong_probe_law_or_filler_count_is_told_apart() -> None:
    cases = node_cases(1000, seed=1)

    def untempered(plan: SlotPlan) -> SlotPlan:
        return replace(plan, tail_law=normalise(plan.tail_scores)) if len(plan.tail) else plan

    assert closed_form_misses(cases, lambda plan: plan) == 0
    assert closed_form_misses(cases, untempered) > 50
    assert closed_form_misses(cases, lambda plan: replace(plan, slots=plan.slots + 1)) > 50
    assert closed_form_misses(cases, lambda plan: replace(plan, tail_law=0 * plan.tail_law + 1)) > 50


def test_min_cut_equals_the_minimum_over_all_subsets() -> None:
    rng = random.Random(2)
    for case in node_cases(150, seed=2, vocab=4):
        for fillers in (None, surviving(case.plan(), rng)):
            sets = candidate_sets(node_trees(case.plan(), fillers))
            assert min_cut(case.p, sets) == by_subsets(case.p, sets), case


@pytest.mark.parametrize("method", SLOTTED)
def test_no_rule_exceeds_the_bound(method: str) -> None:
    for case in node_cases(200, seed=3):
        assert case.acceptance(METHODS[method]) <= bound(case.p, case.plan(METHODS[method])), case


def test_point_masses_attain_the_bound() -> None:
    for case in node_cases(200, seed=4):
        assert case.acceptance(TOPK) == bound(case.p, case.plan(TOPK)), case


def test_without_surviving_fillers_probe_first_attains_the_bound_and_dominates_rrsw() -> None:
    better = 0
    for case in node_cases(600, seed=5):
        none = [0] * len(case.plan().tail)
        best = min_cut(case.p, candidate_sets(node_trees(case.plan(), none)))
        probe_first, rrsw = (case.acceptance(method, none) for method in (RHEO, RRSW))
        assert probe_first == best, case
        assert probe_first >= rrsw, case
        better += probe_first > rrsw
    assert better > 40


def test_with_fillers_either_rule_may_be_ahead_and_either_may_miss_the_bound() -> None:
    rng = random.Random(6)
    config = Config(anchors=1, slots=4, support=None)
    leads: list[tuple[str, Number]] = []
    missed = {"rheo": 0, "rrsw": 0}
    for index in range(300):
        p, draft = (exact([rng.randint(1, 9) for _ in range(5)]) for _ in range(2))
        case = NodeCase(normalise(p), draft, config)
        best = bound(case.p, case.plan())
        accepted = {name: case.acceptance(METHODS[name]) for name in missed}
        leads.append((str(index), accepted["rheo"] - accepted["rrsw"]))
        for name in missed:
            missed[name] += accepted[name] < best
    found = tally(leads)
    assert found.wins > found.losses > 0
    assert missed["rrsw"] > missed["rheo"] > 0


def surviving(plan: SlotPlan, rng: random.Random) -> list[int]:
    """Numbers of surviving fillers that differ from one probe identity to the next."""
    return [rng.randint(0, plan.slots - len(plan.anchors) - 1) for _ in plan.tail] if len(plan.tail) else []


def test_where_surviving_fillers_depend_on_the_probe_the_min_cut_bounds_both_rules() -> None:
    rng = random.Random(7)
    attained = missed = 0
    for case in node_cases(400, seed=7):
        fillers = surviving(case.plan(), rng)
        best = min_cut(case.p, candidate_sets(node_trees(case.plan(), fillers)))
        probe_first, rrsw = (case.acceptance(method, fillers) for method in (RHEO, RRSW))
        assert max(probe_first, rrsw) <= best, case
        if len(set(fillers)) > 1:
            attained += max(probe_first, rrsw) == best
            missed += max(probe_first, rrsw) < best
    assert attained > 0 and missed > 0


def test_in_whole_trees_the_min_cut_over_the_classes_bounds_the_first_step() -> None:
    varying = 0
    for case in tree_cases(60, "mixed", slots=3, budget=5):
        p = target_of(case)(())
        for method in (RHEO, RRSW):
            law, classes = exact_law(case, method)
            trees = [(c.mass, c.result) for c in classes]
            first = 1 - sum(mass for tokens, mass in law.stops.items() if len(tokens) == 1)
            assert root_acceptance(p, trees, method.rule) == first
            assert first <= min_cut(p, candidate_sets(trees)), case
            varying += len({len(tree.children(())) for _, tree in trees}) > 1
    assert varying > 0


def test_a_node_of_one_tree_is_its_round_at_depth_one() -> None:
    for case in node_cases(60, seed=9, vocab=4):
        if case.config.temperature == 1:
            config = replace(case.config, depth=1, beam=1, budget=case.config.slots)
            toy = Toy(4, table(case.p), table(case.draft))
            classes = classes_of(toy.draft.exact, config, RHEO)
            trees = candidate_sets((c.mass, c.result) for c in classes)
            assert trees == candidate_sets(node_trees(case.plan()))
            for method in (RHEO, RRSW):
                assert exact_law(Case("", toy, config), method)[0].accepted == case.acceptance(method)


def table(values: Array) -> Table:
    """Constant weights proportional to Fractions [vocab]."""
    scale = np.lcm.reduce([value.denominator for value in values])
    return Table(tuple(int(value * scale) for value in values), {})


# Counterexamples


@pytest.mark.parametrize("name", NAMES)
def test_counterexamples_are_lossless_and_as_recorded(name: str) -> None:
    case = counterexample(name)
    assert set(case.expect) >= set(PAPER)
    for method, expected in case.expect.items():
        law, classes = exact_law(case, METHODS[method])
        assert total_variation(law, target_of(case), case.config.depth + 1) == 0
        assert (expected["tv"], expected["accepted"]) == ("0", str(law.accepted))
        assert expected["classes"] == len(classes)


def test_with_fillers_probe_first_neither_dominates_nor_attains_the_bound() -> None:
    case = counterexample("one_node_with_fillers")
    assert (case.toy.target.default, case.toy.draft.default) == ((20, 3, 12, 5), (8, 6, 3, 3))
    p, draft = target_of(case)(()), case.toy.draft.exact(())
    assert node_acceptance(p, draft, case.config, RRSW) == 1
    assert node_acceptance(p, draft, case.config, RHEO) == Fraction(87, 88)
    assert bound(p, slot_plan(draft, case.config, RHEO)) == 1


def test_rrsw_can_accept_more_over_a_whole_tree_without_fillers() -> None:
    small, full = counterexample("whole_tree"), counterexample("whole_tree_full_support")
    for case, gap in ((small, Fraction(1, 12)), (full, Fraction(1, 30))):
        assert case.config.slots == case.config.anchors + 1
        assert compare([case], RRSW, RHEO).greatest_gain == gap
    assert all(full.toy.draft.weights(()))


def test_the_whole_tree_counterexample_is_about_survival_not_about_the_first_step() -> None:
    """Both rules accept 3/4 at the root; the anchor keeps its child beside one probe only."""
    case = counterexample("whole_tree")
    p = target_of(case)(())
    trees = [(c.mass, c.result) for c in classes_of(case.toy.draft.exact, case.config, RHEO)]
    assert [root_acceptance(p, trees, method.rule) for method in (RHEO, RRSW)] == [Fraction(3, 4)] * 2
    kept = {tree.children(())[-1].token: len(tree.children((0,))) for _, tree in trees}
    assert kept == {1: 1, 2: 0}


# Whole trees


@pytest.mark.parametrize(("kind", "slots", "count"), [("zeros", 2, 400), ("any", 3, 150)])
def test_over_whole_trees_probe_first_usually_leads_and_rrsw_sometimes(kind: str, slots: int, count: int) -> None:
    """Without fillers and with them."""
    found = compare(tree_cases(count, kind, slots, budget=5), RHEO, RRSW)
    assert found.wins > 10 * found.losses > 0
    assert found.greatest_gain > found.greatest_loss > 0
    assert found.mean > 0


def test_without_anchors_the_two_rules_are_one() -> None:
    """RRSw then tests the probe first as well."""
    found = compare(tree_cases(40, "any", slots=2, budget=4, anchors=0), RHEO, RRSW)
    assert found == Tally(0, 0, 40, 0, 0, 0, None)


def test_only_exact_laws_are_compared() -> None:
    case = tree_cases(1, "any", slots=2, budget=2)[0]
    warm = replace(case, config=replace(case.config, temperature=Fraction(2)))
    with pytest.raises(ValueError, match="any-0: temperature 2 is irrational"):
        compare([warm], RHEO, RRSW)


def test_a_tally_counts_what_it_is_given() -> None:
    leads = [("a", Fraction(1, 2)), ("b", Fraction(-1, 4)), ("c", Fraction(0)), ("d", Fraction(1, 8))]
    assert tally(leads) == Tally(2, 1, 1, Fraction(1, 2), Fraction(1, 4), Fraction(3, 32), "b")
    assert tally(leads[:1]).worst is None
    with pytest.raises(ValueError, match="nothing to compare"):
        tally([])
