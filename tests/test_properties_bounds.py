"""Bounds and dominance at any node, and where they stop to hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from properties import bounds, profiles
from properties.strategies import Parent, cases, parents
from reference.choose import Choose
from reference.distributions import Array, exact, normalise
from reference.methods import METHODS, PAPER, SLOTTED, Method
from reference.rules import Rule, probe_first
from reference.rules.children import Children, Verdict
from rheo.config import Config
from verify.cases import Case
from verify.controls import CONTROLS
from verify.counterexamples import counterexample

pytestmark = pytest.mark.exact

METHOD = st.sampled_from(SLOTTED)
WITH_PROBE = st.sampled_from(("rheo", "rrsw"))
WRONG_LAW = CONTROLS["wrong-law"].method
PARENT = Parent(normalise(exact([3, 2, 1, 1])), exact([4, 1, 3, 2]), Config(1, 2, support=None), (0, 0, 0))


@given(parent=parents(), method=METHOD)
@profiles.scaled(5)
def test_at_any_node_acceptance_is_within_the_transport_bound(parent: Parent, method: str) -> None:
    bounds.accepts_no_more_than_the_bound(parent, METHODS[method])


@given(parent=parents(), method=METHOD)
@profiles.scaled(2)
def test_at_any_node_the_bound_is_the_min_cut(parent: Parent, method: str) -> None:
    bounds.bound_is_the_min_cut(parent, METHODS[method])


@given(parent=parents(), method=WITH_PROBE)
@profiles.scaled(2)
def test_where_fillers_depend_on_the_probe_acceptance_is_within_the_min_cut(parent: Parent, method: str) -> None:
    bounds.accepts_no_more_than_the_min_cut(parent, METHODS[method])


@given(parent=parents())
@profiles.scaled(3)
def test_at_any_node_without_fillers_probe_first_attains_the_bound_and_dominates_rrsw(parent: Parent) -> None:
    bounds.dominates_without_fillers(parent, METHODS["rheo"], METHODS["rrsw"])


@given(case=cases(), method=METHOD)
def test_in_any_tree_the_first_step_is_within_the_min_cut(case: Case, method: str) -> None:
    bounds.first_step_is_within_the_min_cut(case, METHODS[method])


@given(case=cases(), method=st.sampled_from(PAPER))
@profiles.scaled(2)
def test_where_the_draft_is_the_target_every_whole_node_accepts_all_it_can(case: Case, method: str) -> None:
    bounds.accepts_all_it_can_where_the_draft_is_the_target(case, METHODS[method])


def test_a_rule_that_accepts_too_often_exceeds_every_bound() -> None:
    with pytest.raises(AssertionError):
        bounds.accepts_no_more_than_the_bound(PARENT, WRONG_LAW)
    with pytest.raises(AssertionError):
        bounds.accepts_no_more_than_the_min_cut(PARENT, WRONG_LAW)
    case = counterexample("whole_tree")
    with pytest.raises(AssertionError):
        bounds.first_step_is_within_the_min_cut(case, WRONG_LAW)


def test_a_bound_for_another_draft_is_not_the_min_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds.bound_is_the_min_cut(PARENT, METHODS["rheo"])
    monkeypatch.setattr(bounds, "bound", lambda p, plan: p[plan.anchors].sum())
    with pytest.raises(AssertionError):
        bounds.bound_is_the_min_cut(PARENT, METHODS["rheo"])


def test_rrsw_does_not_dominate_probe_first() -> None:
    with pytest.raises(AssertionError):
        bounds.dominates_without_fillers(PARENT, METHODS["rrsw"], METHODS["rheo"])


def never_the_probe(p: Array, children: Children, choose: Choose, depth: int) -> Verdict:
    return probe_first.recursive(p, replace(children, probe=None), choose, depth)


def test_a_rule_that_refuses_its_probe_does_not_accept_all_it_can() -> None:
    case = counterexample("one_node_with_fillers")
    bounds.accepts_all_it_can_where_the_draft_is_the_target(case, METHODS["rheo"])
    shy = Method(METHODS["rheo"].growth, Rule(never_the_probe, probe_first.single_draw))
    with pytest.raises(AssertionError):
        bounds.accepts_all_it_can_where_the_draft_is_the_target(case, shy)
