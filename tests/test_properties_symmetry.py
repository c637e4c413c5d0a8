"""Renaming tokens renames the laws, and the trees where ids decide no slot."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from properties import profiles, symmetry
from properties.strategies import cases, without_ties
from reference.growths import topk
from reference.methods import METHODS, SLOTTED, Method
from reference.slots import SlotPlan
from reference.tree import Tokens
from reference.truncation import Draft
from rheo.config import Config
from verify.cases import Case
from verify.random_toys import random_toy
from verify.toys import Table, Toy, Weights

pytestmark = pytest.mark.exact

METHOD = st.sampled_from(SLOTTED)
RHEO, TOPK = METHODS["rheo"], METHODS["topk"]


@st.composite
def renamings(draw: st.DrawFn) -> tuple[Case, Tokens]:
    case = draw(cases())
    return case, tuple(draw(st.permutations(range(case.toy.vocab))))


@given(drawn=renamings(), method=METHOD)
@profiles.scaled(2)
def test_any_output_law_is_renamed_whatever_ties_the_draft_has(drawn: tuple[Case, Tokens], method: str) -> None:
    case, names = drawn
    assume(not symmetry.ids_decide_the_target(case))
    symmetry.output_law_is_renamed(case, METHODS[method], names)


@given(drawn=renamings(), method=METHOD)
@profiles.scaled(2)
def test_without_ties_in_the_draft_trees_and_emissions_are_renamed(drawn: tuple[Case, Tokens], method: str) -> None:
    case, names = without_ties(drawn[0]), drawn[1]
    assert not symmetry.ids_decide_slots(case, METHODS[method])
    symmetry.trees_are_renamed(case, METHODS[method], names)
    if not symmetry.ids_decide_the_target(case):
        symmetry.emissions_are_renamed(case, METHODS[method], names)


@given(drawn=renamings(), method=METHOD)
def test_ties_that_decide_no_slot_change_nothing(drawn: tuple[Case, Tokens], method: str) -> None:
    case, names = drawn
    assume(tied(case) and not symmetry.ids_decide_slots(case, METHODS[method]))
    symmetry.trees_are_renamed(case, METHODS[method], names)
    if not symmetry.ids_decide_the_target(case):
        symmetry.emissions_are_renamed(case, METHODS[method], names)


def tied(case: Case) -> bool:
    """Whether some context within the tree has two equal positive draft weights."""
    rows = (row for prefix, row in case.toy.draft.listed.items() if len(prefix) < case.config.depth)
    return any(len({w for w in row if w}) < sum(w > 0 for w in row) for row in rows)


def one_node(p: Weights, q: Weights, config: Config) -> Case:
    return Case("one node", Toy(len(p), Table(p, {}), Table(q, {})), config)


# Each of them differs from a harmless case in one place.
DECIDED = {
    "the last anchor and the first of the tail": (RHEO, (3, 3, 1), Config(1, 2, 1, 1, 2, None)),
    "two anchors": (RHEO, (3, 3, 1), Config(2, 3, 1, 1, 1, None)),
    "two fillers": (RHEO, (9, 4, 3, 3), Config(1, 3, 1, 1, 3, None)),
    "the last filler and the next": (RHEO, (9, 4, 4, 3), Config(1, 3, 1, 1, 3, None)),
    "the edge of the support": (RHEO, (9, 4, 3, 3), Config(1, 2, 1, 1, 2, 3)),
    "the likeliest of the tail at T = 0": (RHEO, (9, 4, 4, 1), Config(1, 2, 1, 1, 2, None, Fraction(0))),
    "the last of the top K and the next": (TOPK, (9, 4, 4, 1), Config(0, 2, 1, 1, 2, None)),
}
HARMLESS = {
    "ties inside the tail, no fillers": (RHEO, (9, 4, 4, 4), Config(1, 2, 1, 1, 2, None)),
    "ties behind every filler": (RHEO, (9, 5, 4, 2, 2), Config(1, 3, 1, 1, 3, None)),
    "ties among what truncation drops": (RHEO, (9, 5, 3, 3), Config(1, 2, 1, 1, 2, 2)),
    "ties behind the first of the tail at T = 0": (RHEO, (9, 5, 4, 4), Config(1, 2, 1, 1, 2, None, Fraction(0))),
    "zeros": (TOPK, (9, 0, 0, 0), Config(0, 2, 1, 1, 2, None)),
}


@pytest.mark.parametrize("where", DECIDED)
def test_a_tie_at_a_slot_boundary_lets_ids_decide_the_tree_but_not_the_law(where: str) -> None:
    method, q, config = DECIDED[where]
    case = one_node(tuple(range(2, len(q) + 2)), q, config)
    names = tuple(range(len(q)))[::-1]
    assert symmetry.ids_decide_slots(case, method)
    symmetry.output_law_is_renamed(case, method, names)
    with pytest.raises(AssertionError):
        symmetry.trees_are_renamed(case, method, names)


@pytest.mark.parametrize("where", HARMLESS)
def test_a_tie_elsewhere_does_not(where: str) -> None:
    method, q, config = HARMLESS[where]
    case = one_node(tuple(range(2, len(q) + 2)), q, config)
    names = tuple(range(len(q)))[::-1]
    assert not symmetry.ids_decide_slots(case, method)
    symmetry.trees_are_renamed(case, method, names)
    symmetry.emissions_are_renamed(case, method, names)


def test_at_temperature_zero_a_tie_for_the_likeliest_token_lets_ids_decide_the_target() -> None:
    case = one_node((2, 2, 1), (3, 2, 1), Config(1, 2, 1, 1, 2, None, Fraction(0)))
    assert symmetry.ids_decide_the_target(case)
    assert not symmetry.ids_decide_slots(case, RHEO)
    with pytest.raises(AssertionError):
        symmetry.output_law_is_renamed(case, RHEO, (1, 0, 2))
    warm = replace(case, config=replace(case.config, temperature=Fraction(1, 2)))
    assert not symmetry.ids_decide_the_target(warm)
    symmetry.output_law_is_renamed(warm, RHEO, (1, 0, 2))


def even_ids_first(draft: Draft, config: Config) -> SlotPlan:
    order = sorted(range(len(draft.tokens)), key=lambda i: draft.tokens[i] % 2)
    return topk.plan(Draft(draft.tokens[order], draft.q[order]), config)


def test_a_lossless_growth_that_prefers_some_ids_is_found() -> None:
    case = Case("any", random_toy(4, 4, 2, "any"), Config(0, 2, 2, 2, 4, None))
    biased, names = Method(even_ids_first, TOPK.rule), (1, 0, 3, 2)
    symmetry.output_law_is_renamed(case, biased, names)
    with pytest.raises(AssertionError):
        symmetry.trees_are_renamed(case, biased, names)
    with pytest.raises(AssertionError):
        symmetry.emissions_are_renamed(case, biased, names)
