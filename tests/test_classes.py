"""Trees: survival is independent of the probe's identity, and growth keeps its invariants."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from reference import growth, lazy
from reference.choose import sampling
from reference.growth import ROOT, place
from reference.growths import rheo
from reference.methods import METHODS, SLOTTED
from reference.order import comparable, total_order
from reference.slots import drawn_slots, leading_slots
from reference.tree import Node, Tree
from reference.truncation import truncate
from rheo.config import Config
from verify.cases import Case
from verify.classes import Weighted, invariant_faults, layered_trees, merged, posterior_faults
from verify.laws import classes_of, draft_of
from verify.random_toys import KINDS, random_toy

pytestmark = pytest.mark.exact

SHAPES = [
    (anchors, slots, beam, depth, budget)
    for anchors, slots in ((0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4))
    for beam, depth in ((1, 2), (2, 2), (1, 3), (2, 3))
    for budget in (1, 2, 3, 5, 8)
]


def small_cases() -> list[Case]:
    cases = []
    for number, (anchors, slots, beam, depth, budget) in enumerate(SHAPES):
        vocab = (4, 3)[depth - 2]
        kind, support = KINDS[number % len(KINDS)], (None, None, vocab - 1)[number % 3]
        temperature = (Fraction(1), Fraction(1, 2))[number % 2]
        config = Config(anchors, slots, beam, depth, budget, support, temperature)
        cases.append(Case(f"{kind}-{number}", random_toy(number, vocab, depth, kind), config))
    return cases


def layered(case: Case, method: str) -> list[Weighted]:
    return list(layered_trees(draft_of(case), case.config, METHODS[method]))


@pytest.mark.parametrize("case", small_cases(), ids=lambda case: case.name)
def test_within_every_class_a_surviving_probe_is_distributed_as_the_tail(case: Case) -> None:
    """All probes are drawn before pruning here, also those that do not survive."""
    assert not posterior_faults(layered(case, "rheo"))


@pytest.mark.parametrize("case", small_cases(), ids=lambda case: case.name)
def test_lazy_growth_gives_the_trees_of_layered_growth_with_their_probabilities(case: Case) -> None:
    for method in ("rheo", "topk"):
        eager = merged(layered(case, method))
        drawn_late = merged((c.mass, c.result) for c in classes_of(draft_of(case), case.config, METHODS[method]))
        assert {shape: mass for shape, (mass, _) in eager.items()} == {
            shape: mass for shape, (mass, _) in drawn_late.items()
        }


@pytest.mark.parametrize("case", small_cases(), ids=lambda case: case.name)
def test_every_tree_is_connected_ordered_and_within_its_budget(case: Case) -> None:
    for method in SLOTTED:
        for _, tree in layered(case, method):
            assert invariant_faults(tree, case.config) == []


def test_a_tree_uses_its_whole_budget_where_there_are_candidates() -> None:
    for case in small_cases():
        unlimited = replace(case, config=replace(case.config, budget=10_000))
        most = max(len(tree.nodes) for _, tree in layered(unlimited, "rheo"))
        for _, tree in layered(case, "rheo"):
            assert len(tree.nodes) <= min(case.config.budget, most)
            if case.name.startswith(("any", "peaked", "ties")):  # no zeros: every support is full
                assert len(tree.nodes) == min(case.config.budget, most)


def test_survival_of_a_probe_does_not_depend_on_its_identity() -> None:
    """Draw all other probes the same way, and the probe in question every way: it survives always or never."""
    for case in small_cases():
        config = case.config
        outcomes: dict[object, set[bool]] = {}
        plan = rheo.plan(truncate(draft_of(case)(()), config.support), config)
        if plan.proxy is None:
            continue
        position = (len(plan.anchors),)
        for _, tree in layered(case, "rheo"):
            place_of_probe = next((i for i, n in enumerate(tree.nodes) if n.path == position), None)
            ahead = tree.nodes if place_of_probe is None else tree.nodes[:place_of_probe]
            before = tuple(
                (n.path, n.token) for n in ahead if total_order(n) < total_order(probe_slot(plan.proxy, position))
            )
            outcomes.setdefault(before, set()).add(place_of_probe is not None)
        assert all(len(seen) == 1 for seen in outcomes.values())


def probe_slot(proxy: Fraction, position: tuple[int, ...]) -> Node:
    return Node(position, (-1,), "probe", proxy)


@pytest.mark.parametrize(
    ("break_it", "complaint"),
    [
        (lambda nodes: nodes[1:], "not behind its parent"),
        (lambda nodes: nodes[::-1], "not in the total order"),
        (lambda nodes: nodes + nodes[-1:], "share a slot path"),
        (lambda nodes: tuple(n for n in nodes if n.kind != "probe" or n.depth > 1), "without the probe"),
    ],
)
def test_broken_trees_are_noticed(break_it: object, complaint: str) -> None:
    case = Case("any", random_toy(3, 4, 2, "any"), Config(1, 4, 2, 2, 8, None, Fraction(1)))
    _, tree = layered(case, "rheo")[0]
    assert callable(break_it)
    broken = Tree(tuple(break_it(tree.nodes)), tree.plans)
    assert any(complaint in fault for fault in invariant_faults(broken, case.config))


def test_fillers_are_the_likeliest_tail_tokens_other_than_the_probe() -> None:
    toy = random_toy(5, 6, 0, "any")
    config = Config(anchors=2, slots=5, support=None)
    plan = rheo.plan(truncate(toy.draft.exact(()), None), config)
    for probe in range(len(plan.tail)):
        nodes = place(ROOT, leading_slots(plan) + drawn_slots(plan, probe))
        assert [n.kind for n in nodes] == ["anchor", "anchor", "probe", "filler", "filler"]
        others = [int(t) for i, t in enumerate(plan.tail) if i != probe]
        assert [n.token for n in nodes[3:]] == others[:2]
        assert all(n.score <= nodes[2].score <= nodes[1].score for n in nodes[3:])


def test_floats_that_differ_by_rounding_alone_compare_equal() -> None:
    third, fifth = 1 / 3, 3 / 5
    products = {a * b for a, b in product((third, fifth, 1 / 5), repeat=2)} | {0.1 + 0.2, 0.3}
    by_key: dict[object, list[float]] = {}
    for value in products:
        by_key.setdefault(comparable(value), []).append(value)
    assert comparable(0.1 + 0.2) == comparable(0.3)
    assert all(max(group) - min(group) < 1e-15 for group in by_key.values())
    assert comparable(0.3) < comparable(0.3 + 1e-9)


def test_layered_and_lazy_growth_agree_on_sampled_float_trees() -> None:
    import numpy as np

    rng = np.random.default_rng(5)
    config = Config(anchors=1, slots=4, beam=3, depth=4, budget=15, support=12, temperature=1.0)
    table: dict[tuple[int, ...], object] = {}

    def draft_at(tokens: tuple[int, ...]) -> object:
        return table.setdefault(tokens, rng.integers(0, 9, 20) / 8 + (np.arange(20) == 3))

    for _ in range(30):
        # The probes that lazy growth never reaches would shift the stream: read uniforms by site instead.
        numbers = rng.random((config.depth, config.beam))

        def choose(weights, site, numbers=numbers):  # type: ignore[no-untyped-def]
            from reference.choose import inverse_cdf

            return inverse_cdf(weights, numbers[site.depth, site.rank])

        grown = [g.grow(draft_at, config, METHODS["rheo"].growth, choose).nodes for g in (growth, lazy)]
        assert grown[0] == grown[1]
    assert sampling(rng)(np.array([0.0, 1.0]), None) == 1  # type: ignore[arg-type]
