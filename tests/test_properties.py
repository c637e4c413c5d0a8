"""Properties under Hypothesis: what holds for the chosen cases holds for any. Each is seen to fail where it should."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from properties import lossless, parity, profiles, trees
from properties.kinds import frequencies, measured_kinds
from properties.strategies import Family, Grown, cases, configs, deep_cases, families, fixed_cases, pairs, toys
from properties.strategies import trees as any_trees
from reference.distributions import Array, exact
from reference.methods import METHODS, SLOTTED
from reference.rules import RULES, Rule
from reference.rules.children import Children
from reference.tree import Tokens, Tree
from rheo.config import Config
from rheo.methods import METHODS as TORCH
from rheo.methods import Method as TorchMethod
from rheo.rules import RULES as TORCH_RULES
from rheo.rules.children import Children as TorchChildren
from verify.cases import Case, document, dumps, load, parse
from verify.classes import layered_trees
from verify.controls import CONTROLS, token_residual
from verify.enumeration import TooManyOutcomesError
from verify.gate import DATA
from verify.laws import classes_of, draft_of
from verify.precision import PRECISIONS
from verify.random_toys import random_toy

pytestmark = pytest.mark.exact

METHOD = st.sampled_from(SLOTTED)
FIXED = [name for name in METHODS if name not in SLOTTED]  # trees whose shape no draft decides
CASE = Case("any", random_toy(3, 4, 2, "any"), Config(1, 4, 2, 2, 8, None, Fraction(1)))


def control_case(name: str) -> Case:
    return load(DATA / "controls" / f"{name}.json")


# Laws


@given(case=cases(), method=METHOD)
@profiles.scaled(4)
def test_any_case_has_the_targets_law(case: Case, method: str) -> None:
    lossless.has_the_targets_law(case, METHODS[method])


@pytest.mark.parametrize("method", FIXED)
@given(case=fixed_cases())
def test_any_case_has_the_targets_law_where_the_shape_is_fixed(case: Case, method: str) -> None:
    try:
        lossless.has_the_targets_law(case, METHODS[method], limit=2_000)
    except TooManyOutcomesError:
        assume(False)


@st.composite
def long_cases(draw: st.DrawFn) -> Case:
    """Cases small enough for two rounds to be enumerated, with contexts that differ in both."""
    vocab, depth = draw(st.sampled_from(((2, 1), (3, 1), (2, 2))))
    return Case("drawn", draw(toys(vocab, depth=3)), draw(configs(vocab, depth)))


@given(case=long_cases(), method=METHOD)
def test_two_rounds_of_any_case_have_the_targets_law(case: Case, method: str) -> None:
    try:
        sampler = lossless.exact_sampler(case, METHODS[method])
        lossless.rounds_have_the_targets_law(case, sampler, rounds=2, limit=3_000)
    except TooManyOutcomesError:
        assume(False)


@given(case=cases(), method=METHOD)
def test_torch_has_the_targets_law_on_any_case(case: Case, method: str) -> None:
    lossless.torch_has_the_targets_law(case, method)


@pytest.mark.parametrize("name", ["token-residual", "wrong-law", "rrsw-high-proxy"])
def test_a_lossy_method_has_another_law(name: str) -> None:
    lossless.has_the_targets_law(control_case(name), METHODS["rheo"])
    with pytest.raises(AssertionError):
        lossless.has_the_targets_law(control_case(name), CONTROLS[name].method)


def test_a_second_round_that_forgets_a_token_is_found_and_only_there() -> None:
    case = Case("any", random_toy(1, 3, 2, "any"), Config(1, 2, 1, 1, 2, None, Fraction(1)))
    right = lossless.exact_sampler(case, METHODS["rheo"])

    def forgetful(context: Tokens) -> Array:
        return case.toy.target.exact(context[1:] if len(context) > case.config.depth else context)

    wrong = replace(right, target=forgetful)
    lossless.rounds_have_the_targets_law(case, right, rounds=2)
    lossless.rounds_have_the_targets_law(case, wrong, rounds=1)
    with pytest.raises(AssertionError):
        lossless.rounds_have_the_targets_law(case, wrong, rounds=2)


def always_accepting(p: torch.Tensor, children: TorchChildren, coin: torch.Tensor) -> torch.Tensor:
    return TORCH_RULES["probe_first"](p, children, 0 * coin)


def test_a_torch_sampler_whose_coin_is_stuck_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TORCH, "rheo", TorchMethod(TORCH["rheo"].growth, always_accepting))
    with pytest.raises(AssertionError):
        lossless.torch_has_the_targets_law(CASE, "rheo")
    with pytest.raises(AssertionError):
        parity.torch_agrees_with_the_reference(CASE, "rheo", seed=1)


# Parity


@given(case=cases(deepest=3), method=METHOD, seed=st.integers(0, 1_000), dtype=st.sampled_from(sorted(PRECISIONS)))
@profiles.scaled(2)
def test_torch_agrees_with_the_reference_on_any_case(case: Case, method: str, seed: int, dtype: str) -> None:
    parity.torch_agrees_with_the_reference(case, method, seed, dtype)


@given(case=deep_cases(), method=METHOD, seed=st.integers(0, 1_000))
def test_torch_agrees_with_the_reference_where_branches_tie(case: Case, method: str, seed: int) -> None:
    parity.torch_agrees_with_the_reference(case, method, seed)


@pytest.mark.parametrize("method", FIXED)
@given(case=fixed_cases(), seed=st.integers(0, 1_000))
def test_torch_agrees_with_the_reference_where_the_shape_is_fixed(case: Case, method: str, seed: int) -> None:
    parity.torch_agrees_with_the_reference(case, method, seed)


@given(family=families())
@profiles.scaled(2)
def test_both_forms_of_a_rule_agree_at_any_node(family: Family) -> None:
    parity.both_forms_of_a_rule_agree(family, family.rule)


def test_a_form_that_only_takes_its_token_out_of_p_disagrees() -> None:
    third = exact([1, 1, 1]) / 3
    family = Family(third, Children((), 0, (), exact([3, 1, 0]) / 4), 0, RULES["probe_first"])
    parity.both_forms_of_a_rule_agree(family, RULES["probe_first"])
    wrong = Rule(token_residual, RULES["probe_first"].single_draw)
    with pytest.raises(AssertionError):
        parity.both_forms_of_a_rule_agree(family, wrong)


# Trees


@given(grown=any_trees())
@profiles.scaled(2)
def test_any_tree_is_as_it_must_be(grown: Grown) -> None:
    trees.is_well_formed(grown.tree, grown.case.config)
    trees.uses_its_budget(grown.tree, grown.case.config)
    trees.holds_the_best_slots_of_its_parents(grown.tree)


@given(case=cases(), method=METHOD)
def test_any_case_keeps_the_posterior(case: Case, method: str) -> None:
    try:
        layered = list(layered_trees(draft_of(case), case.config, METHODS[method], limit=2_000))
    except TooManyOutcomesError:
        assume(False)
    trees.keep_the_posterior(layered)
    trees.are_those_of_lazy_growth(layered, case, METHODS[method])


@pytest.mark.parametrize("name", ["true-score", "token-ties"])
def test_growth_that_looks_at_a_probes_identity_is_found(name: str) -> None:
    case, control = control_case(name), CONTROLS[name]
    wrong = list(layered_trees(draft_of(case), case.config, control.method, None, control.order, control.fill))
    with pytest.raises(AssertionError):
        trees.keep_the_posterior(wrong)
    with pytest.raises(AssertionError):
        trees.are_those_of_lazy_growth(wrong, case, METHODS["rheo"])


def test_a_tree_that_lost_a_node_or_holds_another_token_is_found() -> None:
    tree = max((c.result for c in classes_of(draft_of(CASE), CASE.config, METHODS["rheo"])), key=lambda t: len(t.nodes))
    shorter = Tree(tree.nodes[:-1], tree.plans)
    with pytest.raises(AssertionError):
        trees.uses_its_budget(shorter, CASE.config)
    with pytest.raises(AssertionError):
        trees.is_well_formed(Tree(tree.nodes[1:], tree.plans), CASE.config)
    anchor = tree.nodes[0]
    other = replace(anchor, tokens=((anchor.token + 1) % CASE.toy.vocab,))
    with pytest.raises(AssertionError):
        trees.holds_the_best_slots_of_its_parents(Tree((other, *tree.nodes[1:]), tree.plans))


# What is drawn, and how long


@given(case=cases())
def test_any_case_survives_being_written_and_read(case: Case) -> None:
    again = parse(dumps(document(case)), "drawn")
    assert (again.toy.target, again.toy.draft, again.config) == (case.toy.target, case.toy.draft, case.config)


def test_the_strategies_produce_the_kinds_that_break_samplers(capsys: pytest.CaptureFixture[str]) -> None:
    found = measured_kinds()
    least = {
        "zeros": 0.3, "ties": 0.3, "one-hot": 0.1, "near-delta": 0.05, "p = q": 0.2, "disjoint": 0.15,
        "T = 0": 0.1, "0 < T < 1": 0.2, "no anchors": 0.2, "truncated support": 0.1, "a probe survives": 0.3,
        "a filler survives": 0.05, "scores tie": 0.2, "budget used up": 0.2, "two levels": 0.2,
        "calibrated": 0.08,
    }  # fmt: skip
    assert found.keys() == least.keys()
    assert [kind for kind, share in found.items() if share < least[kind]] == []
    printed = capsys.readouterr().out
    assert all(kind in printed for kind in least)


def test_a_kind_that_never_comes_up_is_measured_as_such() -> None:
    found = frequencies(pairs(3), {"all": lambda _: True, "none": lambda _: False}, examples=20)
    assert found == {"all": 1.0, "none": 0.0}


def test_ci_searches_the_same_examples_every_time_and_nightly_many_others() -> None:
    def drawn(profile: settings) -> list[int]:
        seen: list[int] = []

        @given(st.integers(0, 10**12))
        @settings(profile, max_examples=20, database=None)
        def collect(number: int) -> None:
            seen.append(number)

        collect()
        return seen

    ci, nightly = profiles.PROFILES["ci"], profiles.PROFILES["nightly"]
    assert drawn(ci) == drawn(ci)
    assert drawn(nightly) != drawn(nightly)
    assert nightly.max_examples >= 10 * ci.max_examples
